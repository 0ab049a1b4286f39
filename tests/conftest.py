"""What every test shares; the environment is set earlier, in tests/environment.py."""

import hypothesis

# A slow machine is no failure, and a run is repeatable: what is found once is found again and becomes a row.
hypothesis.settings.register_profile(
    "pointsman", deadline=None, derandomize=True, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("pointsman")
