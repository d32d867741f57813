"""What all tests rely on."""

import signal

from hypothesis import settings

# Property tests look for wrong answers here, not for slow machines.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)
