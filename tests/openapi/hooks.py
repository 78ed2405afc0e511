"""What schemathesis loads first (SCHEMATHESIS_HOOKS). It would have Hypothesis climb towards requests that are accepted: from some
hundred examples on that takes nearly all of the time, for requests much like those before. Here each is drawn anew."""
import hypothesis


def no_target(observation: float, *, label: str = "") -> float:
    return observation


hypothesis.target = no_target
