"""What holds for every test."""

from hypothesis import settings

# No deadline: how long an example takes is the machine's affair, not a promise to a user.
# No database: a run depends on nothing that an earlier one left in the checkout.
settings.register_profile("forklift", deadline=None, database=None)
settings.load_profile("forklift")
