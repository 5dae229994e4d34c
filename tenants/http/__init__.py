"""What every HTTP entrance of the control plane shares: who asks, errors as answers, paths and bodies."""
