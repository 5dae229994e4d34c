"""Which topics this broker serves, and where the others are: `SoleOwner` where there is one broker, else `FleetMember`."""
