"""Lists of words that say little about a text, one list for each purpose.

The lists differ on purpose. ``COMMON_WORDS`` decides the near-duplicate keys that stores hold, so it must not change.
"""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a about above across after again all also am an and any are as at be because been before being below between both
    but by can cannot could did do does doing down during each ever few for from further had has have having he her here
    hers herself him himself his how i if in into is it its itself just let many me more most much my myself no nor not
    of off on once only or other ought our ours ourselves out over own same shall she should so some such than that the
    their theirs them themselves then there these they this those through to too under until up very was we were what
    when where which while who whom whose why will with would you your yours yourself yourselves
    ain aren couldn didn doesn don hadn hasn haven isn ll mightn mustn needn re shan shouldn ve wasn weren won wouldn
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words of a question that do not help to find a text."""

STOP_WORDS_EXCEPT_NEGATIONS = STOP_WORDS.difference(
    "no nor not cannot ain aren couldn didn doesn don hadn hasn haven isn wasn weren won wouldn".split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words that two statements may differ in without saying different things."""

COMMON_WORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being but by can could did do does doing done
    each for from had has have he her here his how i if in into is it its itself just like made make may me more most my
    new no nor not now of off on once one only or other our out over own same say she should so some such than that the
    their them then there these they this those through to too under until up us use used uses user users very was way we
    well were what when where which while who why will with would you your
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words that come last in the order that near-duplicate keys are made of."""

NOISE_STOP_WORDS = frozenset(
    """
    a an and are as at be been but by can do does for from had has have he her his i if in into is it its may must never
    always no not of on or our she should shall so that the their them then there these they this to was we were will with
    you your my me us all any each every both more most other some such than too very
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words that do not make a text with a noise signal a lasting statement."""

CHAT_STOP_WORDS = frozenset(
    """
    a about after again all also am an and any are as at be because been before being but by can could did do does done
    for from get go going good got great had has have he her here him his how i if in into is it its it's i'm just know
    like lot make me more much my need nice no not now of off ok okay on one or our out really said say see she should so
    some something sure take than thank thanks that that's the their them then there these they thing things think this
    those time to too up us use very want was way we well were what when where which who why will with would yeah yes you
    your you're i've i'll let let's look please
    """.split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words of a conversation that do not make a sentence worth a place in a summary."""
