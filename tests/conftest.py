"""Property tests look for wrong answers here, not for slow machines."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
