"""Word lists for comparing two statements: which words carry no fact, which turn one around, which mean the same.

English and German. Every word is folded: no letter case, ``ä ö ü ß`` as ``ae oe ue ss``, no other accents.
"""

from __future__ import annotations

import re
from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _groups(text: str) -> dict[str, str]:
    """Map every word of a line to the first word of that line."""
    lines = (line.split() for line in text.strip().splitlines())
    return {word: line[0] for line in lines for word in line}


ENGLISH_MARKERS: Final = _words(
    """the a an is are was were be been has have had do does did of in on at to for by with and or not it we they he she
    you i my our their his her its this that these those will must should can from as if when after before every"""
)
GERMAN_MARKERS: Final = _words(
    """der die das den dem des ein eine einen einem einer eines ist sind war waren und oder nicht kein keine keinen im am
    zum zur vom beim mit fuer von zu auf bei aus nach ueber unter wird werden wurde hat haben hatte muss soll kann darf
    wir ihr sie er es ich du mein unser sich jeden jede jeder immer nie auch nur wenn dass als"""
)
OTHER_MARKERS: Final = _words(
    """el los las una uno unos por para con que de del y esta estan su sus se le les des une est pas avec dans pour et
    sont il gli della dei che sono non di het een van niet zijn os uma nao com em da dos um det och ikke av som til jest
    ce qui ses"""
)
"""Function words of other languages; texts with two of these and fewer English or German ones are compared strictly."""

EMPTY_WORDS: Final = _words(
    """a an the this that these those there here of in on at into onto within inside upon as than then so such
    is are am be been being was were do does did has have had having get gets got getting gotten
    it its itself which who whom whose if when whenever because whether but yet however though although thus hence
    also too just really very quite basically actually simply indeed currently now nowadays presently still already
    always generally essentially literally truly certainly definitely clearly obviously please kindly fyi ok okay
    approximately roughly around about circa ca approx all every each any own per s t re ll ve located situated etc
    oclock uhr v fact"""
)
GERMAN_EMPTY_WORDS: Final = _words(
    """der die das den dem des ein eine einen einem einer eines dies diese dieser dieses diesen diesem da dort hier
    in im ins am an auf bei beim zum zur zu vom ist sind bin bist sein war waren wird werden wurde wurden worden wirst
    hat habe haben hast hatte hatten es sich als dass ob wenn wann weil da denn aber doch so dann also
    auch eben halt ja mal sehr ganz eigentlich grundsaetzlich derzeit aktuell momentan jetzt zurzeit gerade noch schon
    immer uebrigens einfach wirklich natuerlich bereits bitte ungefaehr etwa circa ca rund alle aller allen jede jeder jedes
    jeden jedem uhr welche welcher welches gibt per pro selbst"""
)
NEGATIONS: Final = _words(
    """not no never none nobody nothing nowhere neither nor without cannot non nicht kein keine keinen keinem keiner keines
    nie niemals niemand nichts nirgends ohne weder"""
)
MODALS: Final = _groups(
    """
    must muss muessen musst muesste have-to need-to
    should ought soll sollen sollte sollten
    may might darf duerfen duerfte
    can could kann koennen koennte koennten
    will shall would wuerde wuerden
    """
)
PERSONS: Final = _groups(
    """
    i me my mine myself ich mich mir mein meine meinen meinem meiner meines
    you your yours yourself du dich dir dein deine deinen deinem deiner
    he him his himself er ihm ihn
    she her hers herself
    we us our ours ourselves wir uns unser unsere unseren unserem unserer
    they them their theirs themselves ihnen
    """
)
RELATIONS: Final = _groups(
    """
    by von durch
    for fuer
    to nach
    with mit
    from aus
    and und sowie
    or oder
    """
)
"""Words that say how things belong together. One more or less changes little; one in the place of another does."""
COORDINATIONS: Final = _words("and or und oder sowie")

WEEKDAYS: Final = _groups(
    """
    monday mondays mon montag montags
    tuesday tuesdays tue tues dienstag dienstags
    wednesday wednesdays wed mittwoch mittwochs
    thursday thursdays thu thur thurs donnerstag donnerstags
    friday fridays fri freitag freitags
    saturday saturdays samstag samstags sonnabend
    sunday sundays sonntag sonntags
    weekend weekends wochenende wochenenden
    weekday weekdays werktag werktags werktage wochentag
    """
)
MONTHS: Final = _groups(
    """
    january jan januar
    february feb februar
    march maerz
    april apr
    may mai
    june jun juni
    july jul juli
    august aug
    september sep sept
    october oct oktober okt
    november nov
    december dec dezember dez
    """
)
TIMES: Final = _words(
    """today tomorrow yesterday tonight morning afternoon evening night noon midnight week month year quarter spring summer
    autumn fall winter heute morgen gestern abend mittag nachmittag nacht woche monat jahr quartal fruehling sommer herbst
    daily weekly monthly yearly nightly hourly quarterly taeglich woechentlich monatlich jaehrlich stuendlich"""
)
UNITS: Final = _groups(
    """
    percent prozent
    second seconds sec secs s sekunde sekunden
    millisecond milliseconds ms millisekunde millisekunden
    minute minutes min mins minuten
    hour hours hr hrs h stunde stunden
    day days tag tage tagen
    week weeks woche wochen
    month months monat monate monaten
    year years jahr jahre jahren
    kb kilobyte kilobytes
    mb megabyte megabytes
    gb gigabyte gigabytes
    tb terabyte terabytes
    byte bytes
    bit bits
    euro euros eur
    dollar dollars usd
    pound pounds gbp pfund
    cent cents
    franc francs chf franken
    meter meters metre metres m
    centimeter centimeters centimetre centimetres cm zentimeter
    millimeter millimeters millimetre millimetres mm
    kilometer kilometers kilometre kilometres km
    mile miles meile meilen
    gram grams gramme grammes g gramm
    kilogram kilograms kilo kilos kg kilogramm
    milligram milligrams mg milligramm
    ton tons tonne tonnes tonnen
    liter liters litre litres l
    milliliter milliliters millilitre millilitres ml
    degree degrees grad
    celsius
    fahrenheit
    kelvin
    watt watts w
    kilowatt kilowatts kw
    volt volts
    hertz hz
    mhz megahertz
    ghz gigahertz
    """
)
NUMBER_WORDS: Final = {
    word: str(number)
    for number, names in enumerate(
        (
            "zero null", "one eins", "two zwei zwo", "three drei", "four vier", "five fuenf", "six sechs", "seven sieben",
            "eight acht", "nine neun", "ten zehn", "eleven elf", "twelve zwoelf", "thirteen dreizehn",
            "fourteen vierzehn", "fifteen fuenfzehn", "sixteen sechzehn", "seventeen siebzehn", "eighteen achtzehn",
            "nineteen neunzehn", "twenty zwanzig",
        )
    )
    for word in names.split()
} | {
    "thirty": "30", "forty": "40", "fifty": "50", "sixty": "60", "seventy": "70", "eighty": "80", "ninety": "90",
    "dreissig": "30", "vierzig": "40", "fuenfzig": "50", "sechzig": "60", "hundred": "100", "hundert": "100",
    "thousand": "1000", "tausend": "1000", "million": "1000000", "first": "1", "second": "2", "third": "3",
    "fourth": "4", "fifth": "5", "once": "1x", "twice": "2x", "einmal": "1x", "zweimal": "2x",
}  # fmt: skip
SYNONYMS: Final = _groups(
    """
    called named titled
    large big
    buy purchase
    begin start commence
    end finish
    fast quick rapid
    use utilize utilise
    help assist
    repair fix
    film movie
    phone telephone
    photo picture
    repository repo
    database db
    configuration config
    environment env
    production prod
    information info
    application app
    kubernetes k8s
    javascript js
    typescript ts
    postgresql postgres
    live reside
    child kid
    yearly annually annual
    like enjoy
    hate dislike
    mother mum mom
    father dad
    colleague coworker
    holiday vacation
    doctor physician
    car automobile
    require need
    happen occur
    execute run
    bicycle bike
    people persons
    shop store
    small little
    begins starts
    documentation docs
    administrator admin
    gray grey
    programme program
    cheque check
    verwenden benutzen nutzen
    beginnen anfangen starten
    wohnen leben
    handy mobiltelefon
    auto wagen
    datenbank db
    heissen genannt nennen
    mag moegen
    gross grosse
    samstag sonnabend
    """
)
"""Words that mean the same in nearly every sentence, by their base forms."""

ANTONYMS: Final = frozenset(
    frozenset(pair.split("/"))
    for pair in """like/hate like/dislike love/hate allow/forbid allow/deny allow/block enable/disable on/off up/down
    in/out before/after above/below over/under more/less most/least max/min maximum/minimum increase/decrease
    raise/lower open/close open/closed start/stop begin/end first/last public/private internal/external
    include/exclude accept/reject accept/refuse import/export upload/download push/pull read/write add/remove
    create/delete import/export buy/sell win/lose hot/cold warm/cold big/small large/small long/short high/low old/new
    early/late left/right north/south east/west true/false yes/no good/bad fast/slow cheap/expensive light/dark
    strong/weak hard/soft easy/difficult front/back inbound/outbound incoming/outgoing active/inactive single/married
    online/offline morning/evening day/night production/staging frontend/backend client/server source/target
    sender/receiver parent/child input/output best/worst always/never safe/unsafe stable/unstable
    an/aus vor/nach mehr/weniger gross/klein alt/neu heiss/kalt warm/kalt hoch/niedrig frueh/spaet links/rechts
    oeffnen/schliessen offen/geschlossen erlaubt/verboten intern/extern kaufen/verkaufen gut/schlecht schnell/langsam
    hell/dunkel lang/kurz mag/hasst""".split()  # noqa: SIM905 - a list of words reads best as words
)

IRREGULAR_FORMS: Final = {
    "went": "go", "gone": "go", "made": "make", "ran": "run", "bought": "buy", "sold": "sell", "kept": "keep",
    "held": "hold", "led": "lead", "left": "leave", "met": "meet", "paid": "pay", "sent": "send", "spent": "spend",
    "took": "take", "taken": "take", "gave": "give", "given": "give", "wrote": "write", "written": "write",
    "chose": "choose", "chosen": "choose", "began": "begin", "begun": "begin", "came": "come", "became": "become",
    "knew": "know", "known": "know", "thought": "think", "told": "tell", "said": "say", "found": "find", "lost": "lose",
    "won": "win", "built": "build", "spoke": "speak", "spoken": "speak", "drove": "drive", "drank": "drink",
    "ate": "eat", "slept": "sleep", "taught": "teach", "wore": "wear", "grew": "grow", "saw": "see", "seen": "see",
    "children": "child", "kids": "child", "women": "woman", "men": "man", "people": "people", "mice": "mouse",
    "using": "use", "used": "use", "uses": "use", "data": "data", "indices": "index", "indexes": "index", "dying": "die", "lying": "lie",
}  # fmt: skip
PAST_FORMS: Final = frozenset(IRREGULAR_FORMS) - _words(
    """gone taken given written chosen begun known spoken seen children kids women men people mice data indices indexes
    dying lying using uses"""
)
PASSIVE_AUXILIARIES: Final = _words(
    "is are am be been being was were get gets got ist sind war waren wird werden wurde wurden"
)
PRESENT_BE: Final = _words("is are am ist sind bin")
PAST_BE: Final = _words("was were war waren")

NOT_STEMMED: Final = _words(
    """daily weekly monthly nightly hourly yearly quarterly early only family reply supply apply july italy assembly
    anomaly hardly nearly lately barely scarcely rarely mostly partly friendly likely unlikely always news bus gas plus
    this is his us yes redis jenkins kubernetes pandas windows aws ios css js dns https less class process access address
    business series species speed need feed seed red bed thing king ring spring string morning evening during wing bring
    sing nothing something anything everything ceiling ground moment comment cement element segment apartment department
    document"""
)
CONFUSABLE_WORDS: Final = frozenset(
    frozenset(pair.split("/"))
    for pair in """angle/angel trail/trial quiet/quite diary/dairy desert/dessert planet/plant sever/server
    county/country contact/contract costumer/customer untied/united dinner/diner place/palace moral/mortal
    stating/starting bother/brother freight/fright manger/manager board/broad planed/planned though/through
    thought/through thorough/through casual/causal marital/martial sacred/scared bread/beard lasting/listing
    adaption/adoption compliment/complement discreet/discrete principal/principle personal/personnel
    session/season relation/elation proceed/precede prescribe/proscribe statue/statute expect/except accept/except
    leiten/lieten reisen/riesen dreien/dienen wieder/wider""".split()  # noqa: SIM905 - a list of words reads best as words
)
"""Words that look like a misspelling of each other and are not."""

_OPENINGS = (
    r"(?:please\s+)?(?:note|remember|keep in mind|be aware|bear in mind|for your information|for the record|as a reminder"
    r"|reminder|by the way|just so you know|to be clear|in short|in fact)\b(?:\s+that\b)?"
    r"|(?:bitte\s+)?(?:beachte|denk daran|merke|zur erinnerung|zur info|übrigens)\b(?:,?\s*dass\b)?|(?:canon|register)\s*(?=:)"
)
PHRASES: Final = tuple(
    (tuple(triggers.split("|")), re.compile(pattern, re.IGNORECASE), new)
    for triggers, pattern, new in (
        ("note|rem|mind|aware|inf|recor|way|know|clear|short|fact|beacht|daran|merke|erinn|übrig|canon|regis",
         rf"^\W*(?:{_OPENINGS})[\s,:]*", ""),
        ("true|known|case", r"\b(?:it is|it's) (?:true|known|the case) that\b", ""),
        ("can", r"\bcan['’]?t\b|\bcannot\b", "can not"),
        ("won", r"\bwon['’]t\b", "will not"),
        ("shan", r"\bshan['’]t\b", "shall not"),
        ("n't|n’t", r"n['’]t\b", " not"),
        ("nt", r"\b(is|are|was|were|do|does|did|has|have|had|would|should|could)nt\b", r"\1 not"),
        ("'|’", r"['’](?:re|ve|ll|d|m)\b", " "),
        ("'|’", r"\b(it|that|there|here|he|she|what|who)['’]s\b", r"\1 is"),
        ("'|’", r"['’]s\b|(?<=s)['’](?=\s)", " "),
        (" to", r"\b(?:has|have|had|need|needs|needed) to\b|\b(?:is|are) (?:required|obliged) to\b", "must"),
        (" to", r"\b(?:is|are) (?:allowed|permitted) to\b|\b(?:is|are) able to\b", "can"),
        ("day|tag|täg", r"\b(?:(?:every|each|per) day|(?:jeden|pro) tag|täglich)\b", "daily"),
        (" night", r"\b(?:every|each) night\b", "nightly"),
        (" week|woche|wöch", r"\b(?:(?:every|each) week|jede woche|wöchentlich)\b", "weekly"),
        (" month|monat", r"\b(?:(?:every|each) month|jeden monat|monatlich)\b", "monthly"),
        (" year|jahr|jähr", r"\b(?:(?:every|each) year|jedes jahr|jährlich)\b", "yearly"),
        (" hour", r"\b(?:every|each) hour\b", "hourly"),
        ("every|each|alle",
         r"\b(?:every|each|alle)\s+(?=\d|other\b|second\b|third\b|two\b|three\b|four\b|five\b|six\b|ten\b|zwei\b|drei\b)",
         "interval "),
        ("any ", r"\bany time\b", "anytime"),
        (" place", r"\b(?:take|takes|took|taking) place\b", "happen"),
        ("in order", r"\bin order to\b", "to"),
        ("as well|&|+", r"\bas well as\b|(?<=\s)(?:&|\+)(?=\s)", "and"),
        ("as well|course|general|moment|present|right now|as of", r"\b(?:as well|of course|in general|at the moment|at present|right now|as of now)\b", ""),
        ("set", r"\bset[- ]up\b", "setup"),
        ("log", r"\blog[- ]in\b", "login"),
        ("e-mail", r"\be-mail", "email"),
        ("web", r"\bweb[- ]site", "website"),
        ("ing", r"\bfor (?=\w+ing\b)", ""),
        ("%", r"(?<=\d)\s*%", " percent "),
        ("€", r"€\s*(\d[\d.,]*)", r"\1 euro "),
        ("$", r"[$]\s*(\d[\d.,]*)", r"\1 dollar "),
        ("£", r"£\s*(\d[\d.,]*)", r"\1 pound "),
        ("€", r"€", " euro "),
        ("°", r"°\s*c\b", " degree celsius "),
        ("°", r"°\s*f\b", " degree fahrenheit "),
        ("=", r"!=", " ≠ "),
        ("=", r">=", " ≥ "),
        ("=", r"<=", " ≤ "),
    )
)  # fmt: skip
"""Phrases that are rewritten before a text is split into words; each with parts of which a text must have one."""
