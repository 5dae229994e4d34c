"""Which consumer of a Key_Shared subscription owns which key: the three ways to share out hashes. Everything in here is pure."""
