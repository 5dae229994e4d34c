"""The documents of the repository as pages below `/docs`: public, the same for everybody, and without anything of a tenant."""
