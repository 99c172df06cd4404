"""Rules that find facts in a sentence: who a person is, what was decided, what a thing is, where and when.

A sentence is split into clauses. A clause becomes a fact in its own words; only the first person is replaced by the
speaker. Clauses that ask, suppose or quote give no fact. One that denies gives none either, unless it is a fact that says
so in full: a prohibition, a dislike, something that is no longer so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import methodcaller

from lukasa.context.state import Fact
from lukasa.text.word_lists import load_word_lists

WORDS = load_word_lists("lukasa.context", "fact_words.txt")
WORDS["roles"] |= WORDS["personal_roles"]
WORDS["value_subjects"] |= WORDS["naming_subjects"]
WORDS["version_verbs"] |= WORDS["tool_verbs"]


def _third_person(verb: str) -> str:
    """Return the third person of a verb in the first: "works" for "work", "arbeitet" for "arbeite"."""
    if known := (WORDS["first_person_verbs"] | WORDS["habit_verbs"]).get(verb):
        return known[0]
    head, space, tail = verb.partition(" ")
    if head.endswith(("s", "sh", "ch", "x", "o", "z")):
        return f"{head}es{space}{tail}"
    return re.sub(r"(?<=[^aeiou])y$", "ie", head) + f"s{space}{tail}"


def _conjugate(verb: str) -> str:
    """Return the third person of a verb that may be denied: "does not like" for "don't like"."""
    verb = (
        re.sub(r"(?:don['’]t|do not)(?: really)?", "does not", verb)
        .replace("can't", "cannot")
        .replace("can’t", "cannot")
    )
    return verb if verb.startswith(("does", "cannot", "would")) else _third_person(verb)


QUOTATION_PLACEHOLDER = "\ufffc"
"""A character in place of a quotation; a sentence that has it states nothing."""
_QUESTION_MARKS = ("?", "？", "؟", "?)", '?"', "?”", "?!")
_MAX_SUBJECT_WORDS = 9
_MAX_NAME_WORDS = 4
_WORD = re.compile(r"[\w'’-]+")


def _alternatives(*lists: str) -> str:
    """Return a pattern of all words of some lists, the longest first."""
    return "|".join(map(re.escape, sorted({word for name in lists for word in WORDS[name]}, key=len, reverse=True)))


_SPELLING = re.compile(
    rf"(?<![\w/.@'’-])(?:{_alternatives('spellings', 'german_spellings')})(?![\w@'’-]|/\w|\.\w)", re.IGNORECASE
)
_GERMAN_STEM = re.compile(r"\b(?:ich|Ich) (\w+)\b")
_FILLER = re.compile(rf",?\s*(?<![\w-])(?:{_alternatives('fillers')})(?![\w-])[,:]?", re.IGNORECASE)
_ELIDED_VERB = re.compile(
    rf"(?:{_alternatives('elided_verbs')}) (?!(?:is|was|but|of|and|to|that|it|this|you|your|the|hearing|how|all|seeing|these|those)\b)"
)
_ELIDED_STATE = re.compile(rf"(?:{_alternatives('elided_states')})\b(?: [\w-]+){{0,5}}(?:$|[,.])")
_FINITE = re.compile(r"\b(?:is|are|was|were|has|can|will|must|should)\b")
_INVERSION = re.compile(
    r"(?:(?:übrigens|außerdem|dazu|deshalb|und|auch) |(?P<front>(?:gestern|heute|morgen|übermorgen|jetzt|seit|ab|aktuell|momentan|zurzeit|derzeit|inzwischen|nächste\w*"
    r"|letzte\w*)(?: [\w.]+){0,3}? |urlaub |geburtstag ))(?P<verb>\w+(?:en|e|st|t|d)) (?P<subject>wir|ich|(?:unsere?|meine?|die|der|das) \w+) (?P<rest>.+)",
    re.IGNORECASE,
)
_LEAD_IN = re.compile(
    r"(?:(?:no|nope|yes|right|sure|so|now|again|note|rule|update|quick update|good news|important|reminder|thanks|thank you|today|tip|ja|nein|basically|wichtig|achtung|hinweis|info|setup|nur so)"
    r"[,:;!.–—-]+\s*"
    r"|(?:hi|hello|hey|ok|okay|yeah|yep|well|oh|ah|ugh|also|actually|btw|tbh|imo|basically|by the way|(?:just )?(?:an? )?(?:quick )?fyi|lol|haha|hm+|and|but|anyway"
    r"|as you know|for context|for the record|for reference|nb|ps|p\.s\.|heads up|right now|currently|these days|nowadays|at the moment"
    r"|so(?= (?:quick|we|i|my|our)\b)|(?:[\w']+ ){0,3}(?:background|context|info|intro|facts?|details?|update|news):|honestly|personally|plus|additionally|besides|in fact|to be clear|one more thing|just so you know|(?:please )?note that"
    r"|(?:please )?(?:remember|keep in mind|don['’]t forget)(?: that|:)|übrigens|hallo|ach|achja|ach ja|und|(?:nur |kurz )?zur info|kleine info)(?:[,:;!.–—-]+\s*|\s+))+(?=\S)",
    re.IGNORECASE,
)
_QUESTION = re.compile(
    r"(?:(?:do|does|did|can|could|would|should|shall|is|are|was|were|have|has|am|will|isn['’]t|aren['’]t|don['’]t|doesn['’]t|won['’]t|can['’]t) "
    r"(?:i|you|we|they|he|she|it|there|this|that|the|my|our|your|anyone|any)\b"
    r"|(?:what|where|who|whom|whose|why|how|which)(?:['’]s|['’]re)?\b|when (?:is|are|was|do|does|did|will|can|should)\b"
    r"|(?:was|wo|wer|wann|warum|wieso|wie|welche[rsnm]?|ist|sind|hat|haben|kann|können|soll|sollen)\b"
    r"|(?:let|tell|show|give|help) me\b|i(?:['’]d| would) like (?:to|you)\b)",
    re.IGNORECASE,
)
_HEDGE_AT_END = re.compile(
    r"\b(?:i (?:think|guess|believe|suppose|hope)|maybe|probably|perhaps|not sure|or not|glaube ich|denke ich|oder)\W*$"
)
_POLITE_PREFERENCE = re.compile(
    r"\bI(?:['’]d| would) (?:rather (?:have )?|(?:much |strongly |really )?prefer )(?!(?:it|that|not|if|you)\b)"
)
_CLAUSE_BREAK = re.compile(r";\s+|\s[–—-]{1,2}\s+|[,\s]\s*(?:but|aber)\s+(?!(?:only|not|nur|nicht|no)\b)")
_BREAK_SIGNS = (";", "-", "–", "—", "but", "aber")
"""One of these is in every clause break; most sentences have none, and looking for them is quicker than splitting."""
_CONNECTIVES = frozenset({"and", "und", "so", "while"})
_SUBJECTS = frozenset(
    {"i", "we", "ich", "wir", "nobody", "niemand", "keiner", "my", "our", "mein", "meine", "unser", "unsere"}
)
_FINITE_VERBS = frozenset(word for name in ("verbs", "hard_verbs", "tool_verbs", "auxiliaries") for word in WORDS[name])
_SHARED_SUBJECT = re.compile(
    rf"[,\s]\s*(?:and|und)\s+(?:also\s+)?(?=(?:{'|'.join(WORDS['first_person_verbs'])}|am|have)\s)"
)
_SHARED_WE = re.compile(
    rf"[,\s]\s*and\s+(?:now\s+|also\s+)?(?=(?:{'|'.join(sorted(WORDS['we_verbs'] | WORDS['we_hard_verbs']))})\s)"
)
_CONTRACTION = re.compile(
    r"([Ww]e)['’]re\b|([Mm]y name|[A-Z]\w+|(?:[Mm]y|[Oo]ur|[Tt]he) [\w ]{2,20}?)['’]s"
    r"(?= (?:an?|the|our|my|in|on|at|from|tomorrow|today|next|based|called|due|now|allergic|closed|open|out|off|away|still|only|about|behind|under|near|[\d$€£]\S*|[A-Z]\w*$|[A-Z]\w*,)(?: |$|,))"
)
_LEADING_PHRASE = re.compile(
    r"((?:In|At|For|On|Since|During|With|After|Before|From|Within|Outside|Under|Until|Every|Each|As of|As from|Starting|Effective|Ab|Seit|Für)\b"
    r"[^,]{2,50}?)(?:, | (?=(?:we|I|my|our|wir|ich)\b))(?=\S)"
)
_SUBORDINATE = re.compile(rf"(?:{_alternatives('subordinating')})\b", re.IGNORECASE)
_TRAILING_CLAUSE = re.compile(
    r",\s*(?:so|since you|because|['’]?cause|it['’]s|they['’]re|that['’]s|although|though|which|please|thanks|thank you|lol|haha|right|ok|okay|weil|denn"
    r"|obwohl)\b.*$|\s(?:because|although|though|so that|since (?:it|I|we|they|he|she|you)|['’]cause|weil)\b.*$"
    r"|\s(?:too|as well|anyway|please|thanks|now|lol|haha|these days|nowadays|so much|btw|by the way|currently|right now)$",
    re.IGNORECASE,
)
_TRAILING_WORDS = (",", "because", "though", "so that", "since ", "cause", "weil")
_TRAILING_ENDS = (
    *("too", "as well", "anyway", "please", "thanks", "now", "lol", "haha", "days", "nowadays", "much", "btw", "way"),
    *("currently",),
)
"""A text in ASCII without any of these has no trailing clause."""

_MONTH = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mär|mai|okt|dez"
_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day|montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag"
_DATE = re.compile(
    rf"(?:(?:on|by|at|in|due|am|um|at the end of|end of|before|until|bis|every|jeden|nächste[nrs]?|diese[nrs]?|this|next|coming|the) )*"
    rf"(?:(?:{_WEEKDAY})s?\b|(?:the )?day after tomorrow\b|tomorrow\b|today\b|tonight\b|morgen\b|übermorgen\b|heute\b|(?<=next )\w+|(?:nächste[nrs]?|next) \w+"
    r"|(?:\d+|an?|one|two|three|four|five|six|ten|einer|einem|zwei|drei|vier) (?:days?|weeks?|months?|years?|Tage?n?|Wochen?|Monate?n?)\b|\d{4}-\d\d-\d\d"
    rf"|(?:\d{{1,2}}(?:st|nd|rd|th|\.)?\s+(?:of\s+)?)?(?:{_MONTH})[a-z]*\b|\d{{1,2}}(?:st|nd|rd|th)\b|\d{{1,2}}[./]\d{{1,2}}\b|q[1-4]\b"
    r"|\d{1,2}(?::\d\d| ?[ap]m| Uhr)?(?=$|[ ,]))",
    re.IGNORECASE,
)
_EVENT_VERB = re.compile(
    r" (is|are|was moved|moved|has moved|has been moved|was rescheduled|has been rescheduled|was postponed|got (?:moved|pushed|delayed)|was pushed|was delayed|has been (?:pushed|delayed|postponed)|will be|takes place"
    r"|will take place|is due|is scheduled|is set|is planned|happens|starts|leaves|begins|ist|findet|wurde) (?:now |jetzt )?(?:for |to |auf )?"
)
_PATH = r"(?P<path>(?:~|\.{1,2})?/[\w.@+-]+(?:/[\w.@+-]*)*|[A-Za-z]:\\[\w\\.@+ -]*\w|[\w-]+(?:/[\w.-]+)+\.\w{1,8})"
_LOCATION = re.compile(
    rf"(?i:(?:the|our|my)\s+(?P<thing>[\w-]+(?: [\w-]+){{0,5}}?)\s+(?:is|are|lives?|sits?|stands?|goes?)(?: (?:kept|stored|found|located))?"
    rf"\s+(?:in|at|under|into|to)\s+[`\"']?{_PATH}[`\"']?(?P<rest>.*))"
)
_HABIT = re.compile(
    r"\b(?:every|each|daily|weekly|monthly|(?:once|twice|\w+ times) (?:a|per)|on (?:mon|tues|wednes|thurs|fri|satur|sun)days|at night"
    r"|in the mornings?|mornings|evenings|weekends|jeden|jede|täglich|abends|morgens)\b|\b(?:at|by) \d",
    re.IGNORECASE,
)
_HARD = re.compile(
    rf"\d|\b(?!I\b)[A-ZÄÖÜ]|@|/\w|`|\b(?:{_alternatives('evidence')})\b"
    r"|\b(?:in|of|on|by|until|since|from|early|late) (?:march|may)\b"
)
"""A number, a name, an address or a habit: what makes a complement worth keeping."""
_VAGUE_START = re.compile(
    r"(?:it|this|that|these|those|them|him|her(?= (?:too|so)|$)|you|your|how|what|when|where|to (?:know|see|ask|hear|thank|be|have|do|get)|something"
    r"|(?:hard|fine|here|there|well|late|alone|fast|slowly|again|great)$"
    r"|anything|everything|but|of course|is|one of|the (?:idea|way|fact|look|sound|new|second|first|last|other)|es|das|dies\w*|dich|euch|wie|was)\b",
    re.IGNORECASE,
)
_ADVERBS = rf"(?:(?:{_alternatives('adverbs')}) )*"
_ADVERB_WORDS = frozenset(WORDS["adverbs"])

_VERSIONED = r"[A-Za-z][\w.+#-]*(?: [A-Za-z][\w+#-]*)? v?\d[\w.]*"
_VERSION_LIST = re.compile(rf"{_VERSIONED}(?:(?:, (?:and )?| and | \+ | & ){_VERSIONED})+")
_STACK = re.compile(
    r"(?:(?:our|the|my|unser|mein|current|tech|project) )*(?:stack|tools|tooling|techstack|frameworks)(?: is|:| =) (?P<list>\S.*)",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"(?P<thing>[A-Za-zÄÖÜäöü][\w/ -]{1,30}?) ?(?:=|->|→) ?(?P<value>[^=]+)")
_LABEL = re.compile(r"(?:(?:our|the|my|unser|mein) )?(?P<thing>[A-Za-zÄÖÜäöü][\w -]{1,30}): (?P<value>\S.{0,80})")
_STANDING = re.compile(
    r"(?:please[, ]+|bitte[, ]+)?(?P<when>always|never(?: ever)?|from now on|in future|going forward|whenever|every time|immer|nie|niemals|ab jetzt"
    r"|ab sofort|avoid|make sure(?= to| that| you))[, ]+(?P<rest>.+)",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r", (?:not|nicht) |(?<! is)(?<! are)(?<! am)(?<! was)(?<! do)(?<! does)(?<! did)(?<! can)(?<! will)(?<! have)(?<! has)(?<! ist)(?<! sind) not [\w.-]+$"
)
_STYLE = re.compile(
    r"(?:please[, ]+)?(?:keep|make) (?:it|this|things|them|everything|(?:your |the |my |all )?\w+)(?: \w+)? (?:short|brief|simple|concise|formal|informal|casual|minimal|terse|small|readable|plain|polite|professional)\b.*"
    r"|(?:please[, ]+)?(?:be (?:brief|concise|direct|honest|formal|terse|polite)|(?:answer|reply|respond|speak|talk|write)(?: to me| back)? (?:in|without|with) \w+).*"
    r"|(?:no|keine?n?) (?!(?:one|idea|problem|worries|need|way|wonder|doubt|thanks|news|luck|more|longer|such|matter|rush|clue|chance|hurry|ahnung|problem|sorge|stress)\b)[\w/-]+(?: [\w/-]+){0,3}? (?:please|bitte)\b.*"
    r"|[\w /-]{3,40} (?:everywhere|überall)(?:,? (?:please|bitte))?|no [\w-]+, no [\w-]+"
    r"|ohne [\w-]+(?: [\w-]+)? keine?n? \w.+|\w+e? bitte (?:immer|nie|niemals|nur|stets|keine?n?) .+"
    r"|bitte (?:nichts?|keine?n?|nur|nie) (?!vergessen|wundern|mehr)\w.+|(?:antworte?|schreibe?|sprich|erkläre?) (?:mir )?(?:immer |nur |stets )?(?:auf|in|kurz|knapp|ohne) ?.*"
    r"|(?:bitte )?(?:duz|siez)e? mich.*|(?:bitte )?nenn mich \w+|(?:call|address) me (?!back|later|when|if|at|on|tomorrow|now|crazy|old)\w+$",
    re.IGNORECASE,
)
_CONDITION = re.compile(r"(?:if|when|whenever|every time|before|after|wenn|falls|bevor|nachdem)\b")
_WISH = re.compile(
    r"I(?: really)? (?P<verb>hate|love|like|dislike|don['’]t like|can['’]t stand|would love|would like|['’]d love|would appreciate)(?: it)? (?P<rest>(?:when|if) you .+)"
)
_NO_INSTRUCTION = re.compile(rf"(?:{_alternatives('no_instruction')}|\w+ing|\w+ed)\b", re.IGNORECASE)
_CONDITIONAL_INSTRUCTION = re.compile(
    r"(?!i\b|we\b|you\b|he\b|she\b|they\b|it\b|the\b|my\b|our\b)[a-z]+ .{3,160} (?:from now on|going forward|in future)$"
    r"|you (?:must|may not|are not allowed to) (?!be\b|have\b|know\b|think\b)\w+ .+"
    r"|(?:if|when|before|after) [^,]{3,80}, (?:please )?(?:always|never|do not|don['’]t) (?!know|think|have|want|see)\w.+"
    r"|(?:please )?(?:use|write|answer|call|keep|put|format|name|log|store|reply|send|save|return|make) [^,]{2,60}(?:, (?:never|not)|,? always) .+",
    re.IGNORECASE,
)
_PROHIBITION = re.compile(
    r"(?:please[, ]+|bitte[, ]+)?(?P<what>(?:do not|don['’]t)(?: ever)? (?P<rest>.+)"
    r"|no (?!(?:one|idea|problem|worries|need|way|wonder|doubt|thanks|news|luck|more|longer|such|matter)\b)(?:[\w-]+ ){1,4}?"
    r"(?:on|after|before|in|at|during|without|until|between|by|from) .+|keine? (?:[\w-]+ ){1,3}?(?:am|nach|vor|in|im|ohne|an) .+)",
    re.IGNORECASE,
)
_NO_PROHIBITION = re.compile(
    r"(?:worry|forget|mind|know|think|get me wrong|bother|hesitate|be|you|want|need|have|understand|see|like|care|feel|believe|remember|really|even"
    r"|panic|laugh|judge|ask me|say|do (?:that|it|this)|go there|give up|stop|miss|wait|\w+ (?:it|that|this|them|yet)$)\b",
    re.IGNORECASE,
)
_NOBODY_MAY = re.compile(
    r"it is (?:forbidden|prohibited|not allowed) to \w.+|(?:nobody|no one|only [\w' ]{2,40}?) (?:may|must|can|is allowed to|are allowed to) \w.+",
    re.IGNORECASE,
)
_DECISION = re.compile(
    r"(?P<cue>(?:we|I)(?: all| both| finally)?(?:['’]ve| have)?(?: now| finally| just| already)? (?:decided (?:to|on|that|for)|agreed (?:to|on|that)"
    r"|settled (?:on|for)|chose|chosen|picked|opted for|approved)|(?:let['’]?s|we(?:['’]ll| will)|we are(?: now)? going to) (?:go with|use)"
    r"|(?:we are(?: now)? )?going with|decision:|agreed:|the (?:final )?decision is(?: to)?|the plan is to|we plan to|we are planning to"
    r"|it (?:was|is) (?:decided|agreed) (?:to|that))\s+(?P<rest>.+)"
    r"|(?:we|I)(?:['’]ve| have)? decided (?P<against>against .+|not to .+)"
    r"|wir haben uns für (?P<german>.+?) entschieden.*|wir haben (?:beschlossen|entschieden),? (?P<german_that>.+)",
    re.IGNORECASE,
)
_NAME = re.compile(
    r"(?:[Mm]y name is|(?:[Yy]ou can |[Pp]lease |[Pp]eople |[Ff]riends |[Jj]ust )?[Cc]all me|I am|I['’]m|I go by|[Tt]his is|[Mm]ein Name ist"
    r"|[Ii]ch hei(?:ß|ss)e|[Ii]ch bin)\s+(?P<name>[A-ZÄÖÜ][\w'’-]+(?: (?:van |von |de )?[A-ZÄÖÜ][\w'’-]+){0,2})"
    r"(?=[.,!]|$| and\b| from\b| und\b| aus\b)(?P<rest>.*)"
)
_NATIONALITY = re.compile(
    r"(?!(?:Adrian|Sebastian|Christian|Julian|Damian|Fabian|Vivian|Florian|Brian|Maximilian|Ian)$)"
    r"\w*(?:ian|ish|ese|German|French|Dutch|American|Mexican|Korean|Moroccan|Greek|Swiss|Czech|Thai)$"
)
_PREFERENCE = re.compile(rf"I {_ADVERBS}prefer (?P<rest>.+)")
_LIKING = re.compile(
    rf"(?:I|[Ii]ch) {_ADVERBS}(?P<verb>(?:don['’]t|do not) (?:really )?(?:like|enjoy|eat|drink|drive|smoke|speak|wear|have any|have an?|own an?)"
    r"|can(?:['’]t|not) (?:stand|eat|have|drink|tolerate)|like|love|hate|enjoy|dislike|adore|mag|liebe|hasse|esse|trinke) (?P<rest>.+)"
)
_NO_LONGER = re.compile(
    r"(?P<subject>I|[Ww]e|(?:[Mm]y |[Tt]he |[Oo]ur )?[\w'’-]+(?: [\w'’-]+){0,3}?) (?P<be>am |is |are )?no longer (?P<rest>\w.+)"
)
_NOT_ANYMORE = re.compile(
    r"(?P<subject>[Ii]ch|[Ww]ir|(?:[Dd]er |[Dd]ie |[Dd]as )?[\w-]+) (?P<verb>\w+) (?P<rest>(?:.+ )?(?:nicht|keine?[nmr]?) (?:.+ )?mehr\b.*)"
)
_HAVE_BEEN = re.compile(
    rf"I(?: have|['’]ve) {_ADVERBS}(?P<rest>(?:been|worked|lived|taught|played|used|studied|run|had|owned|known) .*\b(?:for|since) .+)"
)
_I_AM = re.compile(rf"(?:I(?: am|['’]m)|Ich bin) {_ADVERBS}(?P<rest>.+)")
_LASTING_SELF = re.compile(
    r"on (?:the|our) [\w -]+ team\b|on (?:call|leave|holiday|vacation|parental leave|maternity leave)\b|training for|working (?:at|for|as|part-time|remotely)"
    r"|an? (?:[\w-]+ ){0,2}(?:person|owl|lover|enthusiast|native|expat|introvert|extrovert|fan of)\b|planning (?:an?|to|our|my) |saving for |seit |bei [A-Z]"
    r"|not a fan of|into |keen on |(?:\d+|an? \d+|(?:twenty|thirty|forty|fifty|sixty)\b[\w-]*)\b"
    r"|(?:Vegetarier|Veganer|Diabetiker|Linkshänder)\w*|(?:eine? )?[A-ZÄÖÜ]\w+(?:er|in|or|ist|ent|ant|wirt|mann|frau)\b|der |die ",
    re.IGNORECASE,
)
_NO_ROLE = re.compile(
    r"(?:an?|the) (?:bit|little|lot|mess|one|same|only|first|last|worst|best|slow|fast|quick|bad|terrible|good|better|big believer|night|morning)\b"
)
_PAST_LIFE = re.compile(
    rf"I(?:['’]ve| have)? {_ADVERBS}(?P<rest>(?:moved to|was born|grew up|graduated|studied|joined|adopted|retired|got (?:married|engaged|promoted|divorced)|became"
    r"|founded|quit|gave up|stopped (?:smoking|drinking|eating)|started (?:at|as|working|a new|my)|switched (?:to|from)|took over|inherited|served in|emigrated"
    r"|bought (?:an?|my|our) (?:\w+ ){0,3}?(?:house|flat|apartment|car|bike|dog|boat|cabin)"
    r"|(?:worked|lived|taught|served)\b.* (?:until|from|between|as an?|in \d{4}|for [\w-]+ (?:years|months)))\b.*)"
)
_PAST_EVENT = re.compile(
    rf"I {_ADVERBS}(?P<rest>(?:\w+ed|broke|ran|met|won|wrote|took|made|went|sold|bought|built|lost|gave|taught|flew|drove|spent|got (?:an?|my|our)|was (?:in|at)) (?!it\b|that\b|this\b|you\b|the test)"
    rf".*\b(?:in (?i:{_MONTH})[a-z]*|(?:in|since) \d{{4}}|last (?:year|month|summer|winter|spring|autumn|fall)|\d+ years ago)\b.*)"
)
_FIRST_PERSON = re.compile(
    rf"(?:I|[Ii]ch) (?P<how>{_ADVERBS})(?P<verb>{'|'.join(sorted(WORDS['first_person_verbs'] | WORDS['habit_verbs'], key=len, reverse=True))}) (?P<rest>.+)"
)
_NEVER = re.compile(
    r"(?P<who>I|[Ww]e) never (?P<verb>(?!(?:\w+ed|got|had|knew|saw|heard|went|did|was|were|said|thought|came|found|made|took|gave|told|met|need|keep|want|know"
    r"|have|be|been|see|get|mind|really|even|ever)\b)[a-z]+) (?P<rest>.+)"
)
_USUALLY = re.compile(
    r"I (?P<how>always|usually|normally|typically|generally|mostly|often) (?!(?:get|have|see|think|feel|want|need|try|end|wonder|do|am|was|hear|seem|mean|say)\b)"
    r"(?P<verb>[a-z]+(?<!ed)(?<!got)(?<!ot)) (?!(?:it|that|this|when|how|why|the syntax|about)\b)(?P<rest>.+)"
)
_GOAL = re.compile(
    r"I (?:want|plan|intend|am planning|am hoping) to (?P<rest>(?:learn|move|become|study|visit|travel|retire|marry|lose|quit|buy an?|build an?|write an?|run an?|start an?|open an?)\b.+)"
)
_ABILITY = re.compile(r"I can (?P<rest>(?:also )?(?:speak|drive|play|cook|swim|ride|read|code|program|sing|sign) .+)")
_APPOINTMENT = re.compile(
    r"(?P<who>I|[Ww]e)(?:['’]ll| will(?: all)?| am going to| are going to|['’]m going to) (?P<rest>(?:be (?:in|at|on|away|off|out|back)|travel|fly|move|start|leave"
    r"|arrive|meet|visit|go to|return|present|attend)\b.+)"
)
_DAY = re.compile(
    rf"\b(?:(?:{_WEEKDAY})\b|tomorrow|tonight|next \w+|in \w+ (?:days?|weeks?|months?)\b|\d{{4}}-\d\d|(?:in|from|by|until|since|im|ab|bis|ende|anfang|mitte|end of) (?:{_MONTH})[a-z]*\b|at (?:\d|noon|midnight)"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTH})|(?:{_MONTH})[a-z]* \d)",
    re.IGNORECASE,
)
_SLOTS = {"live in": "home", "work at": "employer", "work for": "employer", "work as": "work", "come from": "origin"}
_PROJECT = re.compile(
    r"(?:(?:we|wir)(?: (?:have )?(?:now |all )?(?:decided|agreed) to| will|['’]ll)?|(?:our |the |this |unser )?(?:project|projekt|stack|codebase|tech stack))$",
    re.IGNORECASE,
)
_TOOL_ITEM = re.compile(
    r"(?P<tool>(?:[A-Z][\w.+#-]*|[a-z]+[.+#-]?[A-Z]\w*|(?!(?:in|on|at|to|the|our|a|about|for|over|only|auf|am|um|bei|page|step|line|day|team|version)\b)[a-z][\w.+#-]*(?: [a-z][\w+#-]*)?(?= v?\d))(?: [A-Z][\w.+#-]*)?)"
    r"(?: (?:version )?v?(?P<number>\d+(?:\.\d+){0,3}(?:-[\w.]+)?))?(?: (?:yesterday|today|last \w+|this \w+|recently|already|gestern|heute))?"
    r"(?P<rest>(?: (?:for|as|with|in|on|via|inside|behind|instead of|on top of|since|from|für|als|seit|mit) (?!(?:that|this|it)$).+)?)"
)
_FREQUENCIES = frozenset(
    {"usually", "mostly", "often", "sometimes", "generally", "normally", "typically", "mainly", "only"}
)
"""Adverbs without which a clause would say more than was said."""
_AUXILIARIES = _ADVERB_WORDS | {"is", "are", "am", "have", "has", "had", "been", "just", "recently"}
_LIST_SEPARATOR = re.compile(r",? (?:and|und|plus|sowie) (?:also )?|, | & | \+ ")
_LASTING_WE = re.compile(
    r"an? (?:\w+ ){0,3}(?:team|company|family|group|startup|agency|studio|charity|club|school|bakery|shop|band|nonprofit|couple)\b"
    r"|(?:expecting|planning an?|renovating|moving to|getting married|opening) |based in|located|on [A-Z]|in [A-Z]|open |closed |\d|(?:running|using|building|selling|hosting) (?=.*[A-Z\d])|(?:running|using) [\w.-]+(?:,? not [\w.-]+)?$"
)
_PLACE = re.compile(
    r"(?:in|on|at|under|behind|next to|opposite|near|from|im|in der|am|um|aus|auf|bei) (?:the |der |dem )?(?:[\w-]+ )*?(?:[A-ZÄÖÜ\d]|\w+$)"
)
_JUDGEMENT = re.compile(
    r"(?:so|too|very|really|quite|pretty|just|all|out|full of|a bit|a little|a lot|a mess|an? \w*(?:problem|issue|shame|pain|joke|disaster|nightmare|good|bad"
    r"|great|nice))\b"
)
_EXISTENCE = re.compile(
    r"There (?:is|are) (?:only )?(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve) (?!.*\b(?:errors?|warnings?|issues?|bugs?|tests?|failures?"
    r"|problems?|typos?|lines?|way|reason|question|chance|difference|lot|bit|few|better)\b).*\b(?:in|on|at|per|behind|next to) \w.+"
)
_DETERMINERS = frozenset({"the", "my", "our", "a", "an", "der", "die", "das", "mein", "meine", "unser", "unsere"})
_OWN = re.compile(r"(?:my|our|meine?|unsere?)\b", re.IGNORECASE)
_OWNED = re.compile(r"(?:my|our|meine?|unsere?|the|der|die|das)\b", re.IGNORECASE)
_SUBJECT_SELF = re.compile(r"(?:I|Ich|[Ww]e)\b")
_FAVOURITE = re.compile(r"my favou?rite (?P<thing>[\w -]+)|meine? Lieblings(?P<ding>\w+)", re.IGNORECASE)


_strip_marks = methodcaller("strip", ",.!:;()")


def _before_apostrophe(word: str) -> str:
    """Return the part of a word before its first apostrophe, in small letters: "we" of "We're"."""
    return word.lower().replace("’", "'").partition("'")[0]


def _holds_any(text: str, phrases: Iterable[str]) -> bool:
    """Tell whether a text holds any of some phrases; a loop takes half the time of a generator."""
    for phrase in phrases:  # noqa: SIM110
        if phrase in text:
            return True
    return False


def _repair_spelling(sentence: str) -> str:
    """Write out the short forms of chats, remove fillers and begin with a capital: "btw im on py3" is "I'm on py3"."""
    tokens = sentence.split()
    is_german = not WORDS["german"].keys().isdisjoint(tokens)
    spellings = WORDS["german_spellings" if is_german else "spellings"]
    text = sentence
    if not spellings.keys().isdisjoint(map(_strip_marks, tokens)) or (
        tokens and tokens[0] != "I" and tokens[0].lower() in spellings
    ):
        text = _SPELLING.sub(lambda match: spellings.get(match[0].lower(), (match[0],))[0], sentence)
    if is_german:
        text = _GERMAN_STEM.sub(lambda match: match[0] + "e" * (f"{match[1]}e" in WORDS["first_person_verbs"]), text)
        if match := _INVERSION.match(text):
            text = f"{match['subject']} {match['verb']} {match['front'] or ''}{match['rest']}"
    lead_in = _LEAD_IN.match(text)
    text = text[lead_in.end() :] if lead_in else text
    lowered = text.lower()
    if _holds_any(lowered, WORDS["fillers"]):
        text = _FILLER.sub("", text).strip(" ,")
        lowered = text.lower()
    if _ELIDED_VERB.match(lowered):
        text = f"{'Ich' if is_german else 'I'} {text[0].lower()}{text[1:]}"
    elif _ELIDED_STATE.match(lowered) and _FINITE.search(lowered) is None:
        text = f"I am {text[0].lower()}{text[1:]}"
    if "  " in text:
        text = " ".join(text.split())
    return text[:1].upper() + text[1:]


class Clause:
    """A clause of a sentence and its speaker; ``setting`` is a phrase that stood before it: "for the backend"."""

    def __init__(self, text: str, speaker: str, setting: str = "") -> None:
        self.text = text
        self.speaker = speaker
        self.setting = setting and _to_third_person(setting)
        self.words = text.split()
        self.lowered = text.lower()
        self.first_word = _before_apostrophe(self.words[0]) if self.words else ""
        self.vocabulary = frozenset(_WORD.findall(self.lowered))

    @cached_property
    def lowered_words(self) -> list[str]:
        """The first words, among which a subject and its verb are looked for."""
        return [word.lower() for word in self.words[:_MAX_SUBJECT_WORDS]]

    @cached_property
    def is_negated(self) -> bool:
        if self.vocabulary.isdisjoint(WORDS["negation"]):
            return False
        contrast = _CONTRAST.search(self.lowered)  # "in Vault, not in files" denies nothing that it states
        return not contrast or not WORDS["negation"].keys().isdisjoint(_WORD.findall(self.lowered[: contrast.start()]))

    @cached_property
    def is_lasting(self) -> bool:
        """Whether the clause speaks neither of the moment nor to the listener."""
        is_momentary = not self.vocabulary.isdisjoint(WORDS["fleeting"]) or _holds_any(
            self.lowered, WORDS["fleeting_phrases"]
        )
        return not is_momentary and self.vocabulary.isdisjoint(WORDS["listener"])

    def find_verb(self, verbs: Mapping[str, object]) -> int | None:
        """Return the index of the first verb that has a subject before it."""
        words = self.lowered_words
        if verbs.keys().isdisjoint(words):
            return None
        for index, word in enumerate(words[1:], 1):
            if word in verbs and words[index - 1] not in _DETERMINERS:  # "the report" is a noun
                return index
        return None

    def fact(self, text: str, rule: str, slot: str = "") -> Fact:
        """Return a fact in the clause's setting."""
        setting = f" {self.setting}" if self.setting else ""
        return Fact(" ".join(f"{text}{setting}".split()).rstrip(" ,;:!."), slot and f"{slot}{setting.lower()}", rule)


FactRule = Callable[[Clause], Iterator[Fact]]
"""Finds the facts of a clause: none, one, or one for each item of a list."""


def find_facts(sentence: str, speaker: str, *, is_machine: bool = False) -> Iterator[Fact]:
    """Find the facts that a sentence states; of what a machine says, only decisions, tools, places and dates."""
    if sentence.endswith(_QUESTION_MARKS) or QUOTATION_PLACEHOLDER in sentence:
        return
    text = _repair_spelling(sentence)
    lowered = text.lower()
    vocabulary = frozenset(_WORD.findall(lowered))
    if not (is_machine or vocabulary.isdisjoint(WORDS["instruction"])):
        pieces = [text] if _CONDITION.match(lowered) else list(_split_at_subjects(text))
        instruction = _find_instruction(pieces[0], speaker)
        if instruction is None and len(pieces) > 1:
            pieces = [text]
            instruction = _find_instruction(text, speaker)
        if instruction is not None:
            yield instruction
            text = ", ".join(pieces[1:])
            lowered = text.lower()
            vocabulary = frozenset(_WORD.findall(lowered))
    if (
        not vocabulary.isdisjoint(WORDS["supposition"])
        or _holds_any(lowered, WORDS["supposition_phrases"])
        or _QUESTION.match(text)
        or _HEDGE_AT_END.search(lowered)
    ):
        return
    if not is_machine and (fragments := list(_find_fragments(text.rstrip(" .!")))):
        yield from fragments
        return
    for clause in _split_clauses(_POLITE_PREFERENCE.sub("I prefer ", text), speaker):
        is_uncertain = not clause.vocabulary.isdisjoint(WORDS["uncertain"]) or _holds_any(
            clause.lowered, WORDS["uncertain_phrases"]
        )
        if is_uncertain or _QUESTION.match(clause.text):
            continue
        for rule in _MACHINE_RULES if is_machine else _RULES_OF_SUBJECTS.get(clause.first_word, _RULES):
            facts = [fact for fact in rule(clause) if fact.text.count("(") == fact.text.count(")")]
            yield from facts
            if facts and rule is not _find_decision:  # a decision may name tools
                break


def _find_fragments(text: str) -> Iterator[Fact]:
    """Find the facts of a line without a verb: "stack: Go 1.22, Redis", "backend = fastapi, db = sqlite", "deadline: Friday"."""
    stack = _STACK.fullmatch(text)
    has_value = "=" in text or "->" in text or "→" in text
    parts = [_ASSIGNMENT.fullmatch(part) for part in text.split(", ")] if has_value else []
    if stack or _VERSION_LIST.fullmatch(text):
        for item in _LIST_SEPARATOR.split(stack["list"] if stack else text):
            number = re.search(r" v?\d[\w.]*$", item)
            slot = f"version {item[: number.start()].lower()}" if number else ""
            if len(item.split()) <= _MAX_NAME_WORDS:
                yield Fact(f"Project uses {item}", slot, "version")
    elif len(parts) > 1 and all(parts):
        yield from (
            Fact(f"{part['thing'].capitalize()} is {part['value']}", rule="statement") for part in parts if part
        )
    elif (
        ": " in text
        and (label := _LABEL.fullmatch(text))
        and label["thing"].lower().split()[-1] in (WORDS["value_subjects"] | WORDS["events"] | WORDS["roles"])
    ):
        yield Fact(f"{label['thing'].capitalize()} is {label['value']}", f"is {label['thing'].lower()}", "statement")


def _split_clauses(text: str, speaker: str) -> Iterator[Clause]:
    """Split a sentence where a new subject begins; a verb that shares the subject "I" gets a clause of its own."""
    setting = ""
    if phrase := _LEADING_PHRASE.match(text):
        setting, text = phrase[1][0].lower() + phrase[1][1:], text[phrase.end() :]
    if _SUBORDINATE.match(text):
        return
    pieces = _CLAUSE_BREAK.split(text) if any(sign in text for sign in _BREAK_SIGNS) else [text]
    for number_of_part, part in enumerate(part for piece in pieces for part in _split_at_subjects(piece)):
        setting = "" if number_of_part else setting
        if lead_in := _LEAD_IN.match(part):
            part = part[lead_in.end() :]
        if ("'" in part or "’" in part) and (contraction := _CONTRACTION.match(part)):
            subject = f"{contraction[1]} are" if contraction[1] else f"{contraction[2]} is"
            part = f"{subject}{part[contraction.end() :]}"
        part = _cut_trailing_clauses(part)
        part = part[:1].upper() + part[1:]
        first = _SUBJECT_SELF.match(part)
        subject = first[0] if first else ""
        shared = _SHARED_WE if subject in ("We", "we") else _SHARED_SUBJECT
        for number, piece in enumerate(shared.split(part) if subject else [part]):
            clause = Clause(f"{subject} {piece}" if number else piece, speaker, setting)
            if len(clause.words) > 1 and clause.words[-1].lower() not in WORDS["dangling"]:
                yield clause


def _split_at_subjects(text: str) -> Iterator[str]:
    """Split "Anna owns billing, and Ben owns search" where a subject and its verb follow a comma or an "and"."""
    words = text.split()
    start = 0
    if "," not in text and _CONNECTIVES.isdisjoint(text.lower().split()):
        yield " ".join(words)
        return
    for index in range(1, len(words) - 1):
        is_connected = words[index].lower() in _CONNECTIVES
        if not is_connected and not words[index - 1].endswith(","):
            continue
        begin = index + is_connected
        is_self = not is_connected and _before_apostrophe(words[begin]) in ("i", "we", "ich", "wir")
        is_asked = words[index - 1] in ("please,", "bitte,")
        if (
            is_self
            or is_asked
            or (_has_verb(words[start:index]) and _starts_clause(words[begin : begin + 6], is_connected=is_connected))
        ):
            yield " ".join(words[start:index]).rstrip(",")
            start = begin
    yield " ".join(words[start:])


def _has_verb(words: Sequence[str]) -> bool:
    return any(
        word.lower() in _FINITE_VERBS or word[-3:] in ("'re", "'ve") or word[-2:] in ("'m", "'s") for word in words
    ) or (_before_apostrophe(words[0]) in _SUBJECTS)


def _starts_clause(words: Sequence[str], *, is_connected: bool) -> bool:
    """Return whether words begin with a subject and its verb; after "and" a plural verb may have a subject of two parts."""
    first = _before_apostrophe(words[0])
    if first in _SUBJECTS:
        return len(words) > 2
    if first in WORDS["excluded_subjects"] or first in _CONNECTIVES or first.endswith("ing"):
        return False
    for index, word in enumerate(words[1:5], 1):
        verb, before = word.lower(), words[index - 1].lower()
        if before.endswith(","):
            return False
        if verb in _FINITE_VERBS and before not in _DETERMINERS:
            is_singular = (
                verb.endswith("s")
                or verb in ("ist", "war", "hat")
                or (verb.endswith("t") and verb[:-1] + "en" in _FINITE_VERBS)
            )
            is_plural = f"{verb}s" not in _FINITE_VERBS or before.endswith("s")
            return (
                index + 1 < len(words)
                and not words[index + 1].endswith("ing")
                and (is_singular or (is_plural and not is_connected))
            )
        if verb in WORDS["excluded_subjects"] or verb in _CONNECTIVES:
            return False
    return False


def _cut_trailing_clauses(text: str) -> str:
    """Cut reasons and remarks off the end of a clause; conditions stay."""
    text = text.strip().rstrip(" .!,:;…。！")
    lowered = text.lower()
    if text.isascii() and not lowered.endswith(_TRAILING_ENDS) and not _holds_any(lowered, _TRAILING_WORDS):
        return text
    for _ in range(3):
        if (cut := _TRAILING_CLAUSE.search(text)) is None:
            break
        text = text[: cut.start()].rstrip(" ,:")
    return text


def _find_instruction(sentence: str, speaker: str) -> Fact | None:
    """Find a standing instruction or a prohibition; it is kept whole, with its conditions."""
    text = sentence.rstrip(" .!")
    what = ""
    if wish := _WISH.match(text.replace("I'd", "I would")):
        return Fact(f"{speaker} {_conjugate(wish['verb'])} it {wish['rest']}", rule="preference")
    if standing := _STANDING.match(text):
        is_verb = standing["when"].lower() == "avoid" or not _NO_INSTRUCTION.match(standing["rest"])
        if is_verb and len(standing["rest"].split()) > 1:
            what = f"{standing['when']} {standing['rest']}"
    elif prohibition := _PROHIBITION.match(text):
        rest = prohibition["rest"]
        if rest is None or (len(rest.split()) > 1 and not _NO_PROHIBITION.match(rest)):
            what = prohibition["what"]
    elif _STYLE.fullmatch(text) or _CONDITIONAL_INSTRUCTION.match(text):
        what = text
    what = _cut_trailing_clauses(what)
    return Fact(f"{speaker} asks: {what[0].lower()}{what[1:]}", rule="preference") if what else None


def _find_name(clause: Clause) -> Iterator[Fact]:
    match = _NAME.match(clause.text)
    if match is None or clause.is_negated or match["name"].split()[-1].lower() in WORDS["roles"]:
        return
    speaker, name, rest = clause.speaker, match["name"], match["rest"].lstrip(" ,")
    if clause.first_word == "this" and not rest.startswith("from "):
        return
    if clause.text.startswith("I") and _NATIONALITY.match(name):
        yield clause.fact(f"{speaker} is {name}", "identity")
        return
    yield clause.fact(f"{speaker}'s name is {name}", "identity", f"name {speaker.lower()}")
    if rest.startswith(("a ", "an ", "the ")) and _starts_with_role(rest):
        yield clause.fact(f"{speaker} is {rest}", "identity", f"work {speaker.lower()}")


def _find_decision(clause: Clause) -> Iterator[Fact]:
    match = _DECISION.match(clause.text)
    if match is None:
        return
    if other := match["against"] or match["german"] or match["german_that"]:
        yield clause.fact(f"Decision: {other}", "decision")
    elif not _VAGUE_START.match(match["rest"]):
        cue = match["cue"].lower()
        is_choice = any(word in cue for word in ("go with", "going with", "use", "settled", "chose", "picked", "opted"))
        label = "Plan" if "plan" in cue else "Decision"
        yield clause.fact(f"{label}: {'use ' if is_choice else ''}{match['rest']}", "decision")


def _find_location(clause: Clause) -> Iterator[Fact]:
    if (
        ("/" in clause.text or "\\" in clause.text)
        and not clause.is_negated
        and (match := _LOCATION.match(clause.text))
    ):
        thing = " ".join(match["thing"].split())
        if thing.split()[-1].lower() in WORDS["empty_subjects"]:
            return
        text = f"{thing[0].upper()}{thing[1:]} is at {match['path'].rstrip('.,')}{match['rest']}"
        yield clause.fact(text, "path", f"place {thing.lower()}")


def _find_date(clause: Clause) -> Iterator[Fact]:
    if (
        (front := _DATE.match(clause.text))
        and front[0]
        and (match := re.match(r" (?:is|are|ist|sind|haben wir|we have|findet) ", clause.text[front.end() :]))
    ):
        rest = re.findall(r"\w+", clause.text[front.end() + match.end() :].lower())
        if not clause.is_negated and not (WORDS["events"].keys().isdisjoint(rest) and rest[-1:] != ["statt"]):
            yield clause.fact(clause.text, "date")
        return
    verb = _EVENT_VERB.search(clause.text)
    if verb is None or clause.is_negated or not (when := _DATE.match(clause.text, verb.end())) or not when[0]:
        return
    subject = clause.text[: verb.start()]
    words = subject.lower().split()
    if words[0] in WORDS["excluded_subjects"] or not any(
        word in WORDS["events"] or word.endswith(tuple(WORDS["event_endings"])) for word in words
    ):
        return
    is_moved = re.search(r"moved|rescheduled|postponed|pushed|delayed", verb[1]) is not None
    text = f"{_with_owner(subject, clause.speaker)} {'is' if is_moved else verb[1]} {clause.text[verb.end() :]}"
    thing = re.sub(r"^(?:the|our|der|die|das|unsere?) ", "", _with_owner(subject, clause.speaker).lower())
    yield clause.fact(text, "date", f"date {thing}")


def _find_ending(clause: Clause) -> Iterator[Fact]:
    """Find what is no longer so; the fact says so in full and replaces the earlier one."""
    if " mehr" in clause.lowered and (match := _NOT_ANYMORE.match(clause.text)):
        verb, is_self = match["verb"], match["subject"].lower() == "ich"
        if clause.first_word not in WORDS["excluded_subjects"] or is_self or clause.first_word == "wir":
            who = f"{clause.speaker} {_third_person(verb)}" if is_self else f"{match['subject']} {verb}"
            yield clause.fact(f"{who} {_to_third_person(match['rest'])}", "identity" if is_self else "statement")
        return
    if "no longer" not in clause.lowered or (match := _NO_LONGER.match(clause.text)) is None:
        return
    rest, subject = match["rest"], match["subject"]
    if subject == "I":
        verb = next((verb for verb in WORDS["first_person_verbs"] if rest.startswith(f"{verb} ")), "")
        slot = next(
            (f"{name} {clause.speaker.lower()}" for start, name in _SLOTS.items() if rest.startswith(start)), ""
        )
        rest = _third_person(verb) + rest[len(verb) :] if verb else rest
        be = "is " if match["be"] else ""
        yield clause.fact(f"{clause.speaker} {be}no longer {_to_third_person(rest)}", "identity", slot)
    elif subject.lower() == "we" or subject.split()[0].lower() not in WORDS["excluded_subjects"]:
        yield clause.fact(_with_owner(clause.text, clause.speaker), "statement")


def _find_preference(clause: Clause) -> Iterator[Fact]:
    own = clause.speaker.lower()
    if match := _PREFERENCE.match(clause.text):
        rest = match["rest"]
        if rest.startswith("to ") or not _VAGUE_START.match(rest):
            pair = re.fullmatch(r"(.+?) (?:over|to|rather than|instead of) (.+)", rest)
            subject = " / ".join(sorted((_head_noun(pair[1]), _head_noun(pair[2])))) if pair else _head_noun(rest)
            yield clause.fact(
                f"{clause.speaker} prefers {_to_third_person(rest)}", "preference", f"prefers {own} {subject}"
            )
    elif match := _LIKING.match(clause.text):
        verb, rest = match["verb"].lower().replace("’", "'"), match["rest"]
        if _VAGUE_START.match(rest) or not clause.vocabulary.isdisjoint(WORDS["listener"]):
            return
        if (
            " have " in f"{verb} "
            and "not" in verb.replace("'t", "not")
            and WORDS["possessions"].keys().isdisjoint(rest.lower().split())
        ):
            return
        verb = _conjugate(verb)
        for item in _split_list(rest, only_long=True):
            yield clause.fact(
                f"{clause.speaker} {verb} {_to_third_person(item)}", "preference", f"likes {own} {item.lower()}"
            )


def _find_habit(clause: Clause) -> Iterator[Fact]:
    """Find what someone never does, what the speaker can do, and where the speaker will be on a day."""
    if match := _NEVER.match(clause.text):
        verb, rest = match["verb"], match["rest"]
        if not _VAGUE_START.match(rest):
            who = f"{clause.speaker} never {_third_person(verb)}" if match["who"] == "I" else f"We never {verb}"
            yield clause.fact(f"{who} {_to_third_person(rest) if match['who'] == 'I' else rest}", "preference")
    elif (match := _ABILITY.match(clause.text)) and not clause.is_negated:
        yield clause.fact(f"{clause.speaker} can {_to_third_person(match['rest'])}", "identity")
    elif (
        (match := _USUALLY.match(clause.text))
        and clause.is_lasting
        and match["verb"] not in WORDS["first_person_verbs"]
        and not clause.is_negated
    ):
        verb = _third_person(match["verb"])
        yield clause.fact(f"{clause.speaker} {match['how']} {verb} {_to_third_person(match['rest'])}", "preference")
    elif (match := _GOAL.match(clause.text)) and clause.is_lasting and not clause.is_negated:
        yield clause.fact(f"{clause.speaker} wants to {_to_third_person(match['rest'])}", "preference")
    elif (match := _APPOINTMENT.match(clause.text)) and not clause.is_negated and _DAY.search(match["rest"]):
        who, rest = (
            ("We", match["rest"]) if match["who"].lower() == "we" else (clause.speaker, _to_third_person(match["rest"]))
        )
        yield clause.fact(f"{who} will {rest}", "date")


def _find_tools(clause: Clause) -> Iterator[Fact]:
    """Find the tools that a project or a part of it uses, each with its version."""
    index = clause.find_verb(WORDS["version_verbs"])
    if index is None or clause.is_negated:
        return
    words, verb = clause.words, clause.words[index].lower()
    follow, items_at = WORDS["version_verbs"][verb], index + 1
    while items_at < len(words) - 1 and words[items_at] in _ADVERB_WORDS:
        items_at += 1
    if follow or (verb in ("run", "runs", "running") and words[items_at : items_at + 1] == ["on"]):
        if items_at >= len(words) or (follow and words[items_at] not in follow):
            return
        items_at += 1
    items = [_TOOL_ITEM.fullmatch(item) for item in _LIST_SEPARATOR.split(" ".join(words[items_at:]))]
    tools = [item for item in items if item is not None]
    needs_version = (
        verb not in WORDS["tool_verbs"] or _DECISION.match(clause.text) is not None
    )  # a decision is a fact of its own
    if not tools or len(tools) < len(items) or (needs_version and not any(tool["number"] for tool in tools)):
        return
    subject_end = index
    while subject_end > 1 and words[subject_end - 1].lower() in _AUXILIARIES:
        subject_end -= 1
    subject = re.sub(r"['’](?:m|re|s)$", "", " ".join(words[:subject_end]))
    is_bare = subject == " ".join(words[:index])
    if (verb in ("using", "running", "on", "upgrading") and is_bare) or words[0].lower() in ("you", "you're"):
        return
    is_need = verb.startswith(("require", "need"))
    if _PROJECT.match(subject):
        owner, predicate = "", f"Project {'requires' if is_need else 'uses'}"
    elif subject in ("I", "Ich"):
        owner, predicate = f"{clause.speaker.lower()} ", f"{clause.speaker} {'needs' if is_need else 'uses'}"
    elif clause.first_word in WORDS["excluded_subjects"] or verb == "on":
        return
    else:
        owner = f"{_with_owner(subject, clause.speaker).lower()} "
        predicate = _with_owner(" ".join(words[:items_at]), clause.speaker)
    for tool in tools:
        name = f"{tool['tool']} {tool['number']}" if tool["number"] else tool["tool"]
        slot = f"version {owner}{tool['tool'].lower()}" if tool["number"] else ""
        yield clause.fact(f"{predicate} {name}{tool['rest']}", "version", slot)


def _find_identity(clause: Clause) -> Iterator[Fact]:
    speaker, text, own = clause.speaker, clause.text, clause.speaker.lower()
    if not clause.is_lasting:
        return
    if match := _I_AM.match(text):
        rest, be = match["rest"], "ist" if text.startswith("Ich") else "is"
        state = next((phrase for phrase in WORDS["state_phrases"] if rest.lower().startswith(phrase)), "")
        if clause.is_negated and not rest.startswith("not a fan"):
            return
        if state in ("allergic to", "allergisch gegen", "fluent in"):
            for item in _split_list(rest[len(state) + 1 :]):
                yield clause.fact(f"{speaker} {be} {state} {_to_third_person(item)}", "identity")
        elif state or _LASTING_SELF.match(rest) or rest.split()[0] in WORDS["lasting_progressives"]:
            slot = {"from": f"origin {own}", "based in": f"home {own}"}.get(state, "")
            yield clause.fact(f"{speaker} {be} {_to_third_person(rest)}", "identity", slot)
        elif _starts_with_role(rest) and not _NO_ROLE.match(rest):
            is_work = WORDS["personal_roles"].keys().isdisjoint(rest.lower().split()[:5])
            yield clause.fact(f"{speaker} {be} {_to_third_person(rest)}", "identity", f"work {own}" if is_work else "")
    elif clause.is_negated:
        return
    elif match := _HAVE_BEEN.match(text):
        yield clause.fact(f"{speaker} has {_to_third_person(match['rest'])}", "identity")
    elif match := _PAST_LIFE.match(text) or _PAST_EVENT.match(text):
        slot = f"home {own}" if match["rest"].startswith("moved to") else ""
        yield clause.fact(f"{speaker} {_to_third_person(match['rest'])}", "identity", slot)
    elif match := _FIRST_PERSON.match(text):
        verb, rest = match["verb"], match["rest"]
        if verb in ("have", "habe"):
            is_fact = not WORDS["possessions"].keys().isdisjoint(word.strip(",:") for word in rest.lower().split())
        elif verb in WORDS["habit_verbs"]:
            is_fact = (
                _HABIT.search(rest) is not None
                or re.match(r"run an? \w+|do (?!not\b)\w+(?: \w+)? (?:at|for|in)\b", f"{verb} {rest}") is not None
            )
        else:
            is_fact = not _VAGUE_START.match(rest)
        if not is_fact:
            return
        slot = next((f"{name} {own}" for start, name in _SLOTS.items() if f"{verb} {rest}".startswith(start)), "")
        how = "".join(f"{word} " for word in match["how"].split() if word in _FREQUENCIES)
        third = how + _third_person(verb)
        for item in _split_list(rest) if verb in ("speak", "spreche", "use", "play", "own") else [rest]:
            yield clause.fact(f"{speaker} {third} {_to_third_person(item)}", "identity", slot)


def _find_regulation(clause: Clause) -> Iterator[Fact]:
    """Find what must be so, or what nobody may do."""
    is_regulation = _NOBODY_MAY.match(clause.text) is not None
    if not is_regulation and clause.first_word not in WORDS["excluded_subjects"]:
        index = clause.find_verb(_MODALS)
        if (
            index is not None
            and index + 1 < len(clause.words)
            and _POINTING_WORDS.isdisjoint(clause.lowered.split()[:index])
        ):
            needed = _MODALS[clause.words[index].lower()]
            is_regulation = not needed or " ".join(clause.words[index + 1 : index + 3]).startswith(needed)
    if is_regulation:
        yield clause.fact(_with_owner(clause.text, clause.speaker), "regulation")


_MODALS: dict[str, tuple[str, ...]] = {
    "must": (), "mustn't": (), "mustn’t": (), "darf": (), "dürfen": (), "muss": (), "müssen": (), "may": ("not ", "never ", "only "), "have": ("to ",), "has": ("to ",),
    "is": ("not allowed", "forbidden", "prohibited", "only allowed"), "are": ("not allowed", "forbidden", "prohibited", "only allowed"),
}  # fmt: skip


def _find_statement(clause: Clause) -> Iterator[Fact]:
    """Find what a person, a team or a thing is or does, if the clause has a name, a number, a habit or a role in it."""
    words = clause.words
    if clause.is_negated or not clause.is_lasting:
        return
    first = clause.first_word
    if _EXISTENCE.match(clause.text):
        yield clause.fact(_with_owner(clause.text, clause.speaker), "statement")
        return
    if first in ("we", "wir"):
        is_fact, slot = _is_lasting_of_us(clause), ""
    elif first in WORDS["excluded_subjects"]:
        return
    else:
        index = clause.find_verb(_STATEMENT_VERBS)
        if index is None and _names_time(clause):
            yield clause.fact(_with_owner(clause.text, clause.speaker), "statement")
        if index is None or index + 1 >= len(words) or (index == 1 and first in _QUANTIFIERS):
            return
        subject, verb, rest = " ".join(words[:index]), words[index].lower(), " ".join(words[index + 1 :])
        if not _POINTING_WORDS.isdisjoint(clause.lowered.split()[:index]) or words[-1].lower() in _POINTING_WORDS:
            return
        if "," in subject and not re.search(r" (?:and|und|or|oder|&) ", subject):
            return  # "Wow, the team is here"
        is_being = verb in ("is", "are", "ist", "sind", "was", "were")
        if is_being:
            is_fact = _is_lasting_state(subject, verb, rest)
        else:
            is_sure = verb in WORDS["verbs"] and (not WORDS["verbs"][verb] or words[index + 1] in WORDS["verbs"][verb])
            is_known = subject[0].isupper() and not (subject.startswith("The ") and verb in ("use", "uses"))
            is_known = is_known or (_OWNED.match(subject) is not None and not subject.lower().startswith("the "))
            is_fact = (
                not _VAGUE_START.match(rest)
                and (words[index - 1].lower() not in WORDS["empty_subjects"])
                and (
                    (is_sure and is_known)
                    or ((is_sure or verb in WORDS["hard_verbs"]) and _HARD.search(rest) is not None)
                )
            )
        has_one_value = (
            words[index - 1].lower() in WORDS["value_subjects"] and _OWNED.match(subject) and not _PLACE.match(rest)
        )
        slot = f"is {_with_owner(subject, clause.speaker).lower()}" if is_being and has_one_value else ""
    if is_fact:
        rule = "preference" if _FAVOURITE.match(clause.text) else "statement"
        yield clause.fact(_with_owner(clause.text, clause.speaker), rule, slot)


_POINTING_WORDS = frozenset({"this", "that", "these", "those", "it", "you", "they", "he", "she"})
_QUANTIFIERS = frozenset({"both", "some", "most", "many", "any", "one", "another", "other", "all", "each"})
_STATEMENT_VERBS = {
    **WORDS["verbs"],
    **dict.fromkeys((*WORDS["hard_verbs"], "is", "are", "ist", "sind", "was", "were")),
}


def _names_time(clause: Clause) -> bool:
    """Return whether an unknown verb in the third person has a habit or a day: "the rotation changes every Monday"."""
    verb = next((i for i, word in enumerate(clause.words[1:6], 1) if word.islower() and word.endswith("s")), 0)
    rest = " ".join(clause.words[verb + 1 :])
    is_subject = clause.words[0][0].isupper() and clause.words[verb - 1].lower() not in WORDS["empty_subjects"]
    return bool(verb and is_subject and not _VAGUE_START.match(rest) and (_HABIT.search(rest) or _DAY.search(rest)))


def _is_lasting_of_us(clause: Clause) -> bool:
    """Return whether a clause about "we" says what lasts."""
    words = [word for word in clause.words[1:] if word.lower() not in _ADVERB_WORDS]
    verb, rest = words[0], " ".join(words[1:])
    if not rest or _VAGUE_START.match(rest):
        return False
    if verb in ("haben", "sind") and rest.endswith(tuple(WORDS["german_changes"])):
        return True
    if verb in ("are", "sind"):
        return _LASTING_WE.match(rest) is not None or (words[1] in WORDS["participles"] and len(words) > 2)
    if verb in ("haben", "sind") and re.search(r" (?:\w*ge\w+t|\w*ge\w+en|\w+iert|ver\w+t|\w+setzt)$", rest):
        return _HARD.search(rest) is not None
    if verb in ("have", "haben"):
        return (
            _HARD.match(rest) is not None
            or _HABIT.search(rest) is not None
            or not WORDS["possessions"].keys().isdisjoint(rest.lower().split()[:4])
        )
    return verb in WORDS["we_verbs"] or (
        verb in WORDS["we_hard_verbs"] and words[1] != "to" and (_HARD.search(rest) or _HABIT.search(rest)) is not None
    )


def _is_lasting_state(subject: str, verb: str, rest: str) -> bool:
    """Return whether "subject is rest" says what someone or something is, and not how it is at the moment."""
    words = rest.split()
    first, last = words[0].lower(), subject.split()[-1].lower()
    if _starts_with_role(rest):
        return not _NO_ROLE.match(rest)
    if _VAGUE_START.match(rest):
        return False
    if _FAVOURITE.match(subject) or _FAVOURITE.match(rest):
        return True
    if last in WORDS["empty_subjects"] or last in WORDS["momentary_subjects"] or _JUDGEMENT.match(rest):
        return False
    if verb in ("was", "were"):
        is_passive = first.endswith(("ed", "en")) and re.search(r" (?:by|in|on|at|to|from) .*(?:[A-Z]|\d)", rest)
        return (
            bool(is_passive) or first in ("founded", "born", "built") or (first in WORDS["changed"] and " to " in rest)
        )
    if first.endswith("ing") and words[0].islower() and first not in WORDS["lasting_progressives"]:
        is_planned = _DAY.search(rest) is not None and _HARD.search(rest) is not None
        return is_planned or (len(words) > 1 and first == "working" and words[1] in ("at", "for", "as"))
    if (
        rest.lower().startswith(tuple(WORDS["state_phrases"]))
        or (first in WORDS["participles"] and len(words) > 1)
        or _PLACE.match(rest)
    ):
        return True
    if _HARD.search(rest):
        return True
    if _OWN.match(subject) and first in ("a", "an", "ein", "eine") and len(words) > 2:
        return True
    is_adjective = rest.lower() in WORDS["adjectives"] or rest.endswith(tuple(WORDS["adjective_endings"]))
    is_general = subject.lower().startswith(("all ", "every ", "alle ", "jede "))
    return len(words) == 1 and (last in WORDS["naming_subjects"] or is_general) and not is_adjective


_RULES: tuple[FactRule, ...] = (
    _find_name, _find_decision, _find_location, _find_date, _find_ending, _find_tools, _find_regulation, _find_statement,
)  # fmt: skip
_SELF_RULES: tuple[FactRule, ...] = (
    *(_find_name, _find_decision, _find_ending, _find_preference, _find_habit, _find_tools, _find_identity),
)
_GROUP_RULES: tuple[FactRule, ...] = (_find_decision, _find_ending, _find_habit, _find_tools, _find_statement)
_RULES_OF_SUBJECTS = {
    **dict.fromkeys(("i", "ich"), _SELF_RULES), **dict.fromkeys(("we", "wir"), _GROUP_RULES)
}  # fmt: skip
_MACHINE_RULES: tuple[FactRule, ...] = (_find_decision, _find_location, _find_date, _find_tools)


def _starts_with_role(text: str) -> bool:
    """Check whether one of the first words after an article is a role: "our new product owner"."""
    words = [word.strip(",.").lower() for word in text.split()[:6]]
    if words[0] in ("a", "an", "the", "our", "my"):
        return not WORDS["roles"].keys().isdisjoint(words[1:])
    return words[0] in WORDS["roles"] or not WORDS["roles"].keys().isdisjoint(words[:3])


def _with_owner(text: str, speaker: str) -> str:
    """Return a text about others with the speaker in place of "my", and a capital at its beginning."""
    owned = re.sub(r"^(?:[Mm]y|[Mm]eine?)\b", f"{speaker}'s", re.sub(r"^[Oo]ur\b", "The", text))
    owned = re.sub(r"\b(?:my|meine?[rnms]?)\b", "their" if owned.startswith(speaker) else f"{speaker}'s", owned)
    owned = re.sub(r"\b(?:me|I)\b", speaker, owned)
    return owned[0].upper() + owned[1:]


def _split_list(text: str, *, only_long: bool = False) -> list[str]:
    """Split "nuts, soy and milk" into its items; a list of two stays whole if ``only_long``, as in "fish and chips"."""
    items = _LIST_SEPARATOR.split(text)
    is_list = len(items) > (2 if only_long else 1) and all(0 < len(item.split()) <= 4 for item in items)
    return items if is_list and not re.search(r"\b(?:and|und) (?:it|that|they|he|she|my|our)\b", text) else [text]


def _to_third_person(rest: str) -> str:
    """Replace the first person by the third."""
    rest = re.sub(r"\b(?:[Mm]y|[Oo]ur)\b", "their", rest)
    rest = re.sub(r"\bmyself\b", "themselves", rest)
    rest = re.sub(r"\b(?:me|us)\b", "them", rest)
    rest = re.sub(r"\bI(?: am|['’]m)\b", "they are", rest)
    rest = re.sub(r"\b(?:[Mm]ein|[Uu]nser)(e[rnms]?)?\b", r"ihr\1", rest)
    return re.sub(r"\b(?:I|we)\b", "they", rest)


def _head_noun(phrase: str) -> str:
    """Return the last word of a phrase before its first preposition."""
    words = re.findall(r"[\w'’+#-]+", re.split(r"\b(?:for|in|when|with|on|over|at|from|to)\b", phrase.lower())[0])
    return words[-1] if words else phrase.lower()
