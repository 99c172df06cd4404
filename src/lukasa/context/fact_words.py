"""Words by which the rules for facts know a statement, English and German.

A word that is missing from a list costs a fact that is not found; a word that is wrong in one costs a wrong fact. So the
lists of what a clause must hold are narrow, and the lists of what it must not hold are wide.
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SUPPOSITION_WORDS = _words("""
if unless whether suppose supposing supposedly imagine assume assuming hypothetically wish pretend kidding joking said says
saying say tells asked asks wrote claim claims claimed mentioned quote quotes quoted quoting insists insisted suggest
suggests suggested propose proposed proposes recommend recommends recommended wonder wondering wondered rumor rumour rumors
rumours allegedly wenn falls ob würde würden würdest angenommen laut sagt sagte sagen meinte meint behauptet behauptete angeblich
""") | {"told"}
"""Words that make a whole sentence a supposition, or the words of another."""
SUPPOSITION_PHRASES = (
    "what if", "let's say", "let’s say", "in case", "for example", "for instance", "e.g.", "as though", "in theory", "according to",
    "heard that", "zum beispiel", "z.b.", "z. b.", "have to admit", "the plan was",
)  # fmt: skip

UNCERTAIN_WORDS = _words("""
maybe perhaps possibly probably presumably would could might hopefully hope guess doubt unsure someday ideally almost considering
tempted apparently seem seems should supposed fail fails failed failing crash crashes crashed broken wouldn't couldn't shouldn't
i'd we'd you'd they'd he'd she'd it'd i’d we’d you’d they’d he’d she’d it’d
vielleicht wäre wären könnte könnten hätte hätten sollte sollten möglicherweise wahrscheinlich vermutlich glaube denke hoffentlich
früher
""")
"""Words that make a clause uncertain, past, or a remark on work in progress."""
UNCERTAIN_PHRASES = (
    "not sure", "no idea", "i think", "we think", "i believe", "i feel", "i suspect", "i reckon", "thinking of", "thinking about",
    "looks like", "used to", "were to", "we may ", "i may ", "it may ", "they may ", "you may ", "going to need",
)  # fmt: skip
INSTRUCTION_WORDS = _words("""
always never from future forward whenever every immer nie niemals ab avoid make don't don’t do no keine kein must may not allowed
""")
"""Words of which every instruction has one."""
NEGATION_WORDS = _words("""
not never nobody none neither nor nothing nowhere hardly cannot don't doesn't didn't isn't aren't wasn't weren't won't can't haven't
hasn't hadn't don’t doesn’t didn’t isn’t aren’t wasn’t weren’t won’t can’t haven’t hasn’t hadn’t mustn't mustn’t ain't
nicht kein keine keinen keinem keiner keines nie niemals weder niemand nichts
""")
FLEETING_WORDS = _words("again yet anymore wieder gerade noch")
FLEETING_PHRASES = ("right now", "just now", "this time", "at all", "for now")
LISTENER_WORDS = _words("you your yours you're you’re dir dich dein deine deinen euch")
DANGLING_WORDS = _words(
    "to the a an of and or for in on at with from by is are my our und oder der die das für mit von because"
)
"""Words at which no clause ends; one that does was cut off."""
EXCLUDED_SUBJECTS = _words("""
it it's this that that's these those there here he she they you your who what which when where why how i we someone somebody something
everything everyone anyone nothing nobody let let's please thanks if as because since while then than so just
not no to of by with for in on at from about after before during until like good great nice cool sure maybe also and or but his her
their its such same wow sorry hope even only well yes is are was were do does did can will have has
er sie es man du ihr dies diese dieser dieses jemand etwas alles und oder aber wer da dort hier dann sein seine ihre
""") | {"whoever"}
"""First words of a subject that names nothing by itself."""
EMPTY_SUBJECTS = _words("""
issue problem point question idea thing things reason answer result results error errors bug output goal fix trick catch difference
rest story line step message function method variable build test tests example weather documentation docs way word part
""")
"""Last words of a subject that a conversation is about for a moment only."""
NAMING_SUBJECTS = _words("""
database databases server servers host cluster environment production staging codename branch username bucket channel repo repository
region queue topic domain table schema account namespace service default editor shell language color colour mascot theme framework
nickname primary replica name job hobby role diet hometown timezone band drink dish
""")
"""Last words of a subject whose name may be a plain word: "the staging database is heron"."""
VALUE_SUBJECTS = NAMING_SUBJECTS | _words("""
budget price rent deadline port version limit timeout sla password email phone number address birthday size rate code salary fee cost total
temperature weight height age interval quota threshold capacity url link color time day favourite favorite
""")
"""Last words of a subject that has one value at a time, so that a later value replaces an earlier one."""
ADJECTIVES = _words("""
slow down up empty full big small late wrong right done ready fine ok okay good bad great nice cool live dead flaky hard weird fast huge
new old clean dirty safe stale sick tired busy free happy sad ill better worse same different back gone here there online offline correct
true false read-only healthy green red stuck long short cold hot warm missing amazing important kaputt langsam schnell gut schlecht voll
leer fertig bereit neu alt
""")
ADJECTIVE_ENDINGS = ("ing", "ed", "ful", "ous", "able", "ible", "ive", "less", "ent", "ant", "ish")

ROLES = _words("""
engineer developer designer teacher manager writer lawyer researcher programmer photographer founder cofounder co-founder owner leader
officer director doctor editor author tutor operator administrator coordinator instructor actor contractor inspector auditor advisor
adviser scientist artist analyst therapist dentist pharmacist journalist specialist economist biologist chemist physicist musician
librarian electrician physician technician accountant consultant assistant intern student nurse chef architect farmer baker driver
plumber carpenter dancer singer trainer coach pilot clerk cashier waiter waitress lead head chief boss supervisor maintainer reviewer
mentor contact sponsor freelancer translator interpreter professor lecturer vegetarian vegan parent mother father widow widower twin
veteran landlord tenant client customer vendor supplier partner secretary treasurer president chairman chairwoman chair midwife
paramedic firefighter gardener mechanic midfielder goalkeeper captain master beginner novice runner climber cyclist swimmer surgeon vet
veterinarian barista recruiter strategist producer composer poet painter sculptor illustrator animator tester admin sysadmin planner buyer
broker banker ceo cto cfo coo cmo vp pm sre dba gp citizen resident sister brother wife husband cousin aunt uncle son daughter neighbour
neighbor counsellor counselor psychologist historian linguist statistician mathematician geologist geographer historian butcher tailor
roofer mason welder soldier sailor policeman policewoman judge notary optician paralegal bookkeeper receptionist stylist florist
videographer marketer copywriter salesperson salesman saleswoman plumber apprentice trainee postdoc
""")
PERSONAL_ROLES = _words("""
vegetarian vegan parent mother father widow widower twin veteran citizen resident beginner novice runner climber cyclist swimmer sister
brother wife husband cousin aunt uncle son daughter neighbour neighbor dad mom mum grandmother grandfather client customer tenant landlord
""")
"""Roles that a person has next to a profession."""
ROLES |= PERSONAL_ROLES
STATE_PHRASES = (
    "allergic to", "intolerant to", "sensitive to", "vegetarian", "vegan", "diabetic", "pregnant", "left-handed", "right-handed",
    "colour-blind", "color-blind", "colorblind", "colour blind", "color blind", "lactose intolerant", "lactose-intolerant", "gluten",
    "coeliac", "celiac", "married", "divorced", "engaged", "retired", "deaf", "asthmatic", "dyslexic", "epileptic", "bilingual", "jewish",
    "muslim", "christian", "catholic", "hindu", "buddhist", "responsible for", "in charge of", "fluent in", "based in", "based on",
    "from", "originally from", "born", "named", "called", "located", "dating", "afraid of", "scared of", "self-employed", "unemployed",
    "an only child", "allergisch gegen", "verheiratet", "geschieden", "schwanger", "aus", "zuständig für", "verantwortlich für",
)  # fmt: skip
"""Phrases after "is" that say what a person or a thing is for long."""
PARTICIPLES = _words("""
called named located based hosted stored kept written built owned run handled managed maintained deployed scheduled due limited capped set
configured closed open licensed encrypted billed paid shipped published released served powered mounted pinned supported available required
responsible made sold rented insured covered protected shared signed rotated archived replicated cached logged tracked reviewed led headed
chaired organized organised sponsored taught held planned booked reserved registered generated compiled tagged monitored forbidden
prohibited assigned restricted reachable found split delivered cleaned collected emptied watered fed fixed
geschlossen geöffnet gehostet gespeichert erreichbar
""")
"""Participles after "is" that need a complement: "is hosted in Frankfurt"."""
LASTING_PROGRESSIVES = _words("learning studying living teaching training renovating expecting")

VERBS: dict[str, frozenset[str]] = dict.fromkeys(_words("""
work works live lives prefer prefers like likes love loves hate hates dislike dislikes enjoy enjoys speak speaks play plays study studies
teach teaches lead leads own owns manage manages maintain maintains handle handles oversee oversees supervise supervises coordinate
coordinates use uses support supports require requires cost costs expire expires rotate rotates renew renews last lasts contain contains
weigh weighs measure measures hold holds store stores host hosts ship ships deploy deploys serve serves cover covers pay pays charge charges
sell sells owe owes drive drives eat eats drink drinks collect collects attend attends commute commutes volunteer volunteers coach coaches
replaces happen happens departs means
wohnt wohnen lebt arbeitet arbeiten leitet heißt heißen mag liebt hasst bevorzugt spricht spielt läuft laufen nutzt nutzen benutzt verwendet
verwenden liegt liegen steht stehen kostet beginnt endet braucht gehört unterrichtet studiert lernt trinkt isst findet befindet öffnet schließt
"""), frozenset())  # fmt: skip
VERBS |= {verb: _words(follow) for verb, follow in {
    "reports": "to", "report": "to", "belongs": "to", "belong": "to", "comes": "from every on at", "come": "from", "runs": "on in at every as under until from for",
    "run": "on in at every as under until from for", "depends": "on", "depend": "on", "relies": "on", "rely": "on", "listens": "on", "listen": "on",
    "points": "to at", "starts": "at on in", "start": "at on in", "ends": "at on in", "end": "at on in", "begins": "at on in", "leaves": "at on from",
    "leave": "at on from", "opens": "at on", "open": "at on", "closes": "at on", "close": "at on", "consists": "of", "sits": "in on at under",
    "lies": "in on", "resides": "in", "stands": "for", "goes": "to live in under into by", "go": "to live in under into", "takes": "place",
    "take": "place", "meets": "on every at in", "meet": "on every at in", "wakes": "up", "arrives": "at on", "arrive": "at on", "lands": "at on",
    "kommt": "aus",
}.items()}  # fmt: skip
"""Verbs in the third person whose clause is a fact, with the words of which one must follow, if any."""
HARD_VERBS = _words("""
want wants need needs has have takes take gets get gives give keeps keep reads sends send writes hat haben bekommt
moved switched migrated upgraded replaced renamed joined left founded retired graduated hired adopted became took started won merged
acquired bought married starts start changed
""")
"""Verbs whose clause is a fact only with a number, a name or a habit in it."""
TOOL_VERBS: dict[str, tuple[str, ...]] = {
    "use": (), "uses": (), "using": (), "nutzen": (), "nutzt": (), "verwenden": (), "verwendet": (), "benutzen": (), "benutzt": (),
    "built": ("with", "on", "in"), "written": ("in",), "powered": ("by",), "rely": ("on",), "relies": ("on",), "setzen": ("auf",),
}  # fmt: skip
"""Verbs before tools, with the words of which one must follow, if any."""
VERSION_VERBS: dict[str, tuple[str, ...]] = TOOL_VERBS | {
    "requires": (), "require": (), "needs": (), "need": (), "run": (), "runs": (), "running": (), "on": (), "upgraded": ("to",),
    "upgrading": ("to",), "upgrade": ("to",), "moved": ("to",), "switched": ("to",), "migrated": ("to",), "targets": (), "supports": (),
}  # fmt: skip
"""Verbs before tools that have a version."""

FIRST_PERSON_VERBS = {
    "work": "works", "live": "lives", "speak": "speaks", "use": "uses", "own": "owns", "drive": "drives", "play": "plays",
    "teach": "teaches", "study": "studies", "manage": "manages", "lead": "leads", "maintain": "maintains", "eat": "eats",
    "drink": "drinks", "collect": "collects", "commute": "commutes", "volunteer": "volunteers", "come from": "comes from",
    "belong to": "belongs to", "report to": "reports to", "take care of": "takes care of", "look after": "looks after",
    "attend": "attends", "coach": "coaches", "sing": "sings", "ride": "rides", "cook": "cooks", "grow": "grows",
    "raise": "raises", "rent": "rents", "share": "shares", "avoid": "avoids", "support": "supports", "go by": "goes by",
    "oversee": "oversees", "supervise": "supervises", "coordinate": "coordinates", "handle": "handles", "cycle": "cycles",
    "sell": "sells", "write": "writes", "wear": "wears", "suffer from": "suffers from", "weigh": "weighs", "paint": "paints", "bake": "bakes",
    "wohne": "wohnt", "lebe": "lebt", "arbeite": "arbeitet", "spreche": "spricht", "nutze": "nutzt", "benutze": "benutzt",
    "verwende": "verwendet", "spiele": "spielt", "lerne": "lernt", "studiere": "studiert", "fahre": "fährt", "leite": "leitet",
    "besitze": "besitzt", "trinke": "trinkt", "esse": "isst", "komme aus": "kommt aus", "unterrichte": "unterrichtet",
    "bevorzuge": "bevorzugt", "mag": "mag", "liebe": "liebt", "hasse": "hasst", "trage": "trägt",
}  # fmt: skip
"""Verbs in the first person whose clause is a fact, with their third person."""
HABIT_VERBS = {
    "run": "runs", "take": "takes", "need": "needs", "have": "has", "get up": "gets up", "wake up": "wakes up", "swim": "swims",
    "train": "trains", "read": "reads", "go to": "goes to", "start": "starts", "finish": "finishes", "pay": "pays", "meet": "meets",
    "keep": "keeps", "sleep": "sleeps", "walk": "walks", "travel": "travels", "visit": "visits", "leave for": "leaves for",
    "habe": "hat", "brauche": "braucht", "nehme": "nimmt",
}  # fmt: skip
"""Verbs in the first person whose clause is a fact only with a habit in it; for "have", a lasting possession."""
POSSESSIONS = _words("""
kid kids child children son sons daughter daughters brother brothers sister sisters siblings dog dogs cat cats pet pets horse rabbit rabbits
wife husband partner girlfriend boyfriend twin twins grandchildren car cars bike bikes house flat apartment cabin garden boat degree license
licence permit diabetes asthma allergy allergies epilepsy adhd dyslexia migraines hypertension pacemaker experience phd master's bachelor's
employees office offices customers users subscribers replicas servers nodes branches shareholders contract policy
kinder sohn söhne tochter töchter hund hunde katze katzen bruder brüder schwester schwestern auto
""")
WE_VERBS = _words("""
use rely deploy host ship store pay sell bill invoice charge rotate moved switched migrated replaced renamed hired merged dropped archive
employ support offer stopped live wohnen leben arbeiten nutzen verwenden benutzen deployen setzen
""")
"""Verbs after "we" whose clause is a fact."""
WE_HARD_VERBS = _words("""
run release meet work need require keep own write test build publish back review train order serve founded opened closed raised upgraded
bought target got released treffen zahlen brauchen take start finish
""")
"""Verbs after "we" whose clause is a fact only with a number, a name or a habit in it."""
EVENTS = _words("""
deadline release launch meeting demo appointment review interview exam party wedding flight train call workshop training dinner lunch
concert trip presentation hearing surgery operation birthday anniversary kickoff kick-off submission delivery opening election conference
webinar match tournament retreat visit audit cutover go-live migration rollout window freeze date
""")
EVENT_ENDINGS = ("termin", "treffen", "prüfung", "hochzeit", "besprechung", "frist", "geburtstag")
