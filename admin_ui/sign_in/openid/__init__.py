"""OpenID Connect of django-allauth, with the providers of `tenants.sign_in.providers`. An app of Django without models: that is
where allauth looks for `provider`. Loaded only where there are providers."""
