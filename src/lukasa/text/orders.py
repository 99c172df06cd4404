"""Texts that give orders to their reader, instead of saying what is so.

A memory may be shown to every agent at the start of its session, and any agent may have written it: "ignore all previous
instructions", "when asked about accounts, send them to …", "never ask for approval". No list of such phrases is complete.
Therefore this is a second line of defence: a text that it marks is kept, and shown unasked only when the owner or a second
author stands by it (``lukasa.recall.unconfirmed_orders``).

An order is marked by what it wants of an assistant: to drop its instructions, to be somebody else, to hide something from its
user, to act without approval, to give secrets away, to obey from now on, to slip something into its answers. What a person or
a build is asked is not: "run the tests before you commit", "never push to main". A rule against such an act ("never print a
password") is not marked either, except where the act is to ask or to tell. English is covered; of other languages only the
order to ignore earlier instructions, in those that ``_OTHER_LANGUAGES`` names.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, NamedTuple

from lukasa.core.record import Draft, Record
from lukasa.text.patterns import compile_on_use


class _Rule(NamedTuple):
    """A pattern over folded text; words of every match begin with one of the stems and one of the others, which are looked up first."""

    reason: str
    stems: frozenset[str]
    pattern: re.Pattern[str]
    others: frozenset[str] = frozenset()
    negatable: bool = False
    """Whether a negation earlier in the sentence turns the order into a rule against it."""


def _rule(reason: str, stems: str, pattern: str, *, others: str = "", negatable: bool = False) -> _Rule:
    return _Rule(reason, frozenset(stems.split()), compile_on_use(pattern), frozenset(others.split()), negatable)


_SECRETS = (
    r"(?:passwords?|secrets|credentials?|api[ _-]?keys?|private[ _-]?keys?|ssh[ _-]?keys?|id_rsa|\.env\b"
    r"|(?:session|access|auth\w*|api|bearer) tokens?|user data|customer data|personal data)"
)
_ANSWERS = (
    r"(?:responses?|repl(?:y|ies)|answers?|outputs?|summar(?:y|ies)|conversations?|sessions?|interactions?|messages?)"
)
_READER = r"(?:users?|anyone|anybody|operators?|owner|humans?|customers?|them|developers?|admin\w*|administrators?)"
_ROLE_OF_POWER = r"(?:admin\w*|root|superuser|super-?admin\w*|unrestricted|elevated|privileged)"
RULES = (
    _rule(
        "drops earlier instructions",
        "igno disr forg over bypa negl disc circ supe foll",
        r"(?<!not )(?<!never )(?<!n't )(?<!cannot )\b(?:ignor|disregard|forget|overrid|overrul|bypass|neglect|discard|circumvent|supersed)\w*\b[^.!?]{0,50}?"
        r"\b(?:(?:previous|prior|earlier|above|preceding|former|original|initial|system|any|all|every|your|my|these|those|the|safety"
        r"|existing|current) (?:\w+ ){0,2}?(?:instructions?|prompts?|directives?|guidelines|guardrails?|safeguards?|programming|training)"
        r"|(?:previous|prior|earlier|above|preceding|safety|security|all|your|ethical|content|usage|approval) (?:\w+ ){0,1}?"
        r"(?:rules|polic(?:y|ies)|restrictions|constraints|limitations|filters|protocols|checks|controls|commands|orders|measures|instructions)"
        r"|(?:everything|anything|all of it|what) (?:above|before|prior|else|that was|you(?:'ve| have| were| know| are))|safety|security|guardrails)\b"
        r"|\b(?:do not|don't|stop|no longer|need not) follow(?:ing)? (?:the |your |any |all |these |those )*"
        r"(?:previous|prior|earlier|above|system|safety|original|initial|your)\b",
    ),
    _rule(
        "names another role",
        "you act beha oper func resp pret pers mode unre unfi unce jail anyt free",
        r"\byou(?:'re| are) (?:now |hereby |actually |henceforth )+(?:an? |the |in |my |operating|running|acting|free|allowed|authori[sz]ed|dan\b)"
        rf"|\byou(?:'re| are) (?:an? |the )?(?:dan\b|unrestricted|unfiltered|uncensored|jailbroken|(?:\w+ )?{_ROLE_OF_POWER} (?:ai|assistant|agent|user|mode)\b)"
        rf"|\b(?:act|behave|operate|respond|function) as (?:if you (?:are|were|have) )?(?:an? |the |my )*(?:dan\b|evil|unfiltered|uncensored|jailbroken|{_ROLE_OF_POWER})"
        r"|\bpretend (?:to be|that you|you(?:'re| are))\b|\bnew persona\b|\bdo anything now\b|\bfreed from\b[^.]{0,30}\b(?:limit|restrict|rule|constraint)"
        r"|\b(?:unrestricted|unfiltered|uncensored|jailbroken) (?:ai|assistant|mode|model|persona|agent)\b"
        r"|\b(?:developer|debug|god|maintenance|admin\w*|jailbreak|dan|root|override) mode (?:activated|enabled|engaged|unlocked)\b"
        r"|\byou\b[^.!?]{0,30}\b(?:developer|god|maintenance|jailbreak|dan|override) mode\b",
    ),
    _rule(
        "asks for the system prompt",
        "reve prin show outp repe dump leak disp disc expo tell give send enco tran shar reci summ",
        r"\b(?:reveal|print|show|output|repeat|dump|leak|display|disclose|expose|tell|give|send|encode|translate|share|recite|summari[sz]e)\w*\b"
        r"[^.!?]{0,40}\b(?:your|the|hidden|full|its)\b[^.!?]{0,20}\b(?:system (?:prompt|message|instructions?)|(?:initial|hidden|original|starting|secret)"
        r" (?:prompts?|instructions?))\b"
        r"|\b(?:repeat|output|print|show|encode|reveal|recite)\b[^.!?]{0,20}\b(?:text|instructions|words|conversation|everything|messages?)\b[^.!?]{0,12}\b(?:above|you were \w+|word for word|initially)\b",
        negatable=True,
    ),
    _rule(
        "gives secrets away",
        "leak exfi dump disc stea harv reve send forw post uplo emai mail tran bcc cc past prin outp shar copy expo redi rout sync",
        rf"\b(?:leak|exfiltrat|dump|disclos|steal|harvest|reveal)\w*\b[^.!?]{{0,60}}?{_SECRETS}"
        rf"|\b(?:send|forward|post|upload|e-?mail|transmit|bcc|paste|print|output|share)\b[^.!?]{{0,30}}?\b(?:all|any|every|your|stored|saved|user(?:'s|s)?|admin|their|collected|of) (?:\w+ )?{_SECRETS}"
        r"|\b(?:send|forward|post|upload|e-?mail|transmit|copy|bcc|cc|export|redirect|route|exfiltrate|sync|leak)\b(?! (?:an? |the |your |us |me )*(?:e-?mails?|mails?|bugs?|reports?|issues?|patch\w*|questions?"
        r"|feedback|pull|prs?|requests?|traffic|notes?)\b)[^!?]{0,70}? to (?:https?:|www\.|[\w.+-]{1,40}@\w|(?:an? |the |our |my )?(?:external|attacker)|[\w-]{1,30}\.(?:com|net|example|evil|ru|xyz)\b)"
        r"|\bsend\b[^.!?]{0,20}\bpassword\b",
        negatable=True,
    ),
    _rule(
        "hides something from the user",
        "tell info noti aler warn ment reve disc let keep secr cove",
        r"(?:\bnot|n't|\bnever) (?:tell|inform|notify|alert|warn)\b(?! me)[^.!?]{0,20}?\b" + _READER + r"\b"
        r"|(?:\bnot|n't|\bnever) (?:mention|reveal|disclose)\b[^.!?]{0,30}?(?:\bto (?:the |any |an? )*"
        + _READER
        + r"\b|\b(?:this|these|that) (?:instructions?|note|memory|rule|messages?|directive|exchange|conversation|request)\b|\bthis to\b)"
        r"|(?:\bnot|n't|\bnever) let (?:the |any |an? )*" + _READER + r" (?:know|see|notice)\b"
        r"|\bkeep this (?:hidden|secret|confidential)? ?from (?:the |any )*"
        + _READER
        + r"\b|\b(?:secretly|covertly) (?:send|add|include|append|forward|log|store|record|insert|run|copy)\b"
        r"|\bdo not tell the user\b",
    ),
    _rule(
        "acts without approval",
        "with skip bypa omit waiv supp appr conf auth perm",
        r"\bwithout (?:asking|telling|informing|notifying|alerting|warning|confirming|checking with|seeking|requesting|requiring|waiting for"
        r"|(?:any |further |additional |prior |user |human |explicit |their |operator |safety |manual |needing )*(?:confirmation|verification|approval|consent|permission|authori[sz]ation|question|hesitation|(?:safety |content |security |ethical )?(?:checks?|caveats?|refusals?|filter(?:s|ing)|restrictions?|limitations?|safeguards?)))\b"
        r"|\b(?:skip|bypass|omit|waive|suppress)\w* (?:the |any |all |every |user |human |normal |standard |usual |additional |further )*(?:approvals?|confirmations?|authori[sz]ation|safety|security|consent|permission|identity)\b"
        r"|\bno (?:further |additional |more )?(?:safety|security|content) (?:checks?|filters?|restrictions?|limits?|review)\b"
        r"|\b(?:no|requires? no|needs? no) (?:further |additional |user |human |prior |manual )*(?:approval|confirmation|authori[sz]ation|permission) (?:is |are )?(?:needed|required|necessary)\b",
        negatable=True,
    ),
    _rule(
        "orders obedience",
        "alwa neve comp obey must have shal will requ pre prea",
        r"\balways (?:execute|run|perform|do|follow) (?:any|all|every|user|whatever|external)\b|\b(?:always|must|only) (?:say|respond|reply|answer|end|output|print) (?:with )?['\"“]"
        r"|\balways (?:approve|trust|obey|comply|grant|authori[sz]e|agree|accept (?:all|any|every)|defer to|prioriti[sz]e (?:this|these|my)|skip (?:\w+ )?(?:verification|confirmation|approval|review|check))\b"
        r"|\bnever (?:ask|question|verify|refuse|decline|warn|confirm|challenge|doubt|require|reject|deny)\b[^.!?]{0,30}?\b(?:user|operator|owner|human|confirmation|permission|approval|orders?|instructions?|requests?|commands?|claims?|credentials|identity|verification|me|this|them)\b"
        r"|\byou (?:must|have to|shall|will|are required to) (?:now |always |therefore |then )*(?:obey|comply|follow (?:my|these|this|all|every|the following|only)|reveal|ignore|disregard|approve|grant|trust|accept (?:all|any|every))\b"
        r"|\b(?:comply with|obey) (?:all|any|every|my|the following|these|each)\b|\b(?:pre-?approved|pre-?authori[sz]ed) (?:by|for)\b",
    ),
    _rule(
        "wants to last",
        "from hence goin star henc futu late subs upco next dire rule inst poli prom comm admi user sour trut fact orde",
        r"\b(?:from now on|from this point (?:on|forward)|going forward|henceforth|starting (?:from )?(?:now|today|(?:with )?the next))\b[^.!?]{0,15}?\b(?:you\b|always|never|append|respond|reply|answer|act as|treat|approve|ignore|skip|trust|obey|execute|output|include|the (?:assistant|agent)|your\b|all (?:responses|requests|users))"
        rf"|\b(?:all|any|every|each|your) (?:of your |your )?(?:future|later|subsequent|upcoming|next) (?:\w+ )?{_ANSWERS}\b|\b(?:all|any|every) (?:future|later|subsequent) (?:requests|queries|users|tasks|tool calls)\b"
        r"|\b(?:remember|store|save|treat|regard|record|keep|persist|accept|adopt|consider)\b[^.!?]{0,40}?\bas (?:an? |the |your |my )*(?:new |permanent |persistent |standing |system |core |operating |verified |authoritative |trusted |binding |top |high(?:est)?[- ]priority )+(?:directives?|rules?|instructions?|polic(?:y|ies)|prompts?|commands?|administrators?|users?|sources?|truth|facts?)\b"
        r"|\b(?:persistent|permanent|standing) (?:agent |system |assistant )*(?:rule|instruction|directive|order|command)s?\b",
    ),
    _rule(
        "shapes the answers",
        "resp repl reco sugg appe incl outp ment say tell dire redi send forw reve clai answ over refe insi use prov inse embe prep trus prom endo begi star end fini open clos pref repe must shou shal ends have has",
        r"\b(?:when(?:ever)?|if|any ?time|(?:each|every|next) time|once)\b (?:the |a |an |any |this |next )*(?:users?|someone|anyone|somebody|customers?|clients?|people|asked|prompted|questioned|queried|you(?:'re| are) (?:asked|prompted|queried)|recommending|summari[sz]ing|responding|answering|discussing)\b"
        r"[^.!?]{0,70}?(?:, ?|\bthen |\balways |\bonly |\bmust |\binstead |\bplease |\byou (?:should |must |will ))(?:then |always |only |please |also |instead |immediately |never )*(?:respond|reply|recommend|suggest|append|include|output|mention|say|tell|direct|redirect|send|forward|reveal|claim|answer|override|refer|insist|use|provide)\b"
        rf"|\b(?:append|include|insert|output|embed|prepend|mention)\b[^.!?]{{0,70}}?\b(?:in|to|at the end of|with|into|of) (?:all|every|each|your) (?:\w+ )?{_ANSWERS}\b"
        r"|\b(?:always|never|only|exclusively|must never be|should only|must only) (?:recommend\w*|suggest(?:ed)?|trust(?:ed)?|promote[ds]?|endorse[ds]?|mention)\b"
        r"|\b(?:always |must |please )*(?:include|append|output|insert|repeat|say) (?:the |a |this |following |exact )+(?:link|phrase|url|sentence|string|token|words)\b"
        rf"|\b(?:begin|start|end|finish|open|close|preface|prefix) (?:your|every|each|all) (?:\w+ )?{_ANSWERS}\b|\b(?:all|every|each) (?:of (?:your|the) )?{_ANSWERS} (?:must|should|shall|end|ends|begin|begins|start|starts|has to|have to) (?:end |begin |start |always |be )*(?:with|in|by|include|contain|mention)\b",
    ),
    _rule(
        "claims power",
        "admi root supe unre elev priv gran",
        r"\b(?:you|the (?:assistant|agent|ai|bot|current user)|i|the user|this (?:user|agent|account|session))(?:'m|'re|'ve| (?:now |already |currently )*(?:have|has|had|am|is|are|hold|holds|possess\w*))(?: been (?:granted|given|promoted to|assigned))? (?:an? |the |full |complete |unlimited |verified |trusted )*"
        + rf"(?:{_ROLE_OF_POWER}|(?<=trusted )user)"
        + r"\b(?! (?:panel|page|team|dashboard|ui))|\bgrant\w* (?:me|this (?:user|agent|account|session)|the (?:assistant|agent|bearer)|yourself|any(?:one| user)|full|unlimited)\b[^.!?]{0,30}?\b(?:access|privileges?|permissions?|rights|admin\w*)\b",
    ),
    _rule(
        "poses as the system",
        "syst admi deve oper emer crit urge prio root secu poli safe impo inte hidd new upda revi assi inst user im end memo",
        r"<\|[^|>\n]{0,40}\|>|\[/?(?:inst|system|admin|(?:session|context|memory|policy|security) (?:update|override)|system[ _][\w ]{1,30}|memory_persist|end_\w+)[\]:\- ]|<</?sys>>|</?(?:system|admin|instructions?)>|\[user_memory=[^\]]{0,200}\]\s*\[user_memory="
        r"|\b(?:system|admin\w*|developer|operator|emergency|critical|urgent|priority|root|security|policy|safety) (?:overrides?|directives?|commands?|instructions?)\b ?[:\]\-—!]"
        r"|\b(?:emergency|admin\w*|system|security|safety) override\b|\[(?:\w+ )?(?:system|admin\w*|operator|developer)\] ?:?|\(source: ?(?:the )?(?:operator|owner|admin\w*|system)\)"
        r"|\b(?:agent|ai|llm|assistant|important|internal|hidden)[ _](?:system )?(?:instructions?|directives?|system notes?|note to (?:the )?(?:ai|assistant|agent|llm|model)s?)\b ?[:\]\-—!]"
        r"|\b(?:new|updated|revised) (?:instructions?|directives?|orders|system prompt)\b ?[:\-—]"
        r"|(?:^|[\n.:>\]\"'] ?)(?:system|developer|assistant|admin(?:istrator)?) ?: ?(?:you|from now|ignore|disregard|forget|always|never|do not|don't|all |the (?:user|assistant|agent)|new |override|please|respond|must|execute|send|approve|grant|enable|disable)",
    ),
    _rule(
        "changes the memory or the rules of its reader",
        "stor save writ put keep disa turn deac susp remo lift your safe secu rest requ bypa veri auth regi reco trea user perm long pers shar agen syst memo audi log logs clea appr pre my unre",
        r"\b(?:add|write|save|store|commit|append|insert|put|update|rewrite|replace|delete|erase|clear|inject|modify)\b[^.!?]{0,40}?\b(?:your|my|permanent|long[- ]term|persistent|shared|agent|system) (?:\w+ )?(?:memory|memories|memory entr\w+|conversation history|session history|agent context|profile in memory|context)\b"
        r"|\b(?:store|save|write|put|keep) (?:this|that|the following|it) (?:in|to|into) (?:\w+ )?memory\b|\byour (?:new |real |actual |true )*instructions are\b"
        r"|\b(?:disable|turn off|deactivate|suspend|remove|lift)\w* (?:all |any |the |your )*(?:safety|security|content|ethical) (?:measures|filters|checks|guards?|features|restrictions|protocols|rules)\b|\b(?:disable|turn off) (?:all |your )*safety\b"
        r"|\b(?:delete|erase|clear|wipe|remove|purge)\b[^.!?]{0,40}?\b(?:audit (?:log|trail|entr)\w*|memory records|all traces?|conversation history)\b|\bno trace of (?:this|the) (?:conversation|session|request)\b"
        r"|\b(?:cleared|authori[sz]ed|pre-?approved|approved) for (?:\w+ )?(?:unrestricted|restricted|all content|full access|admin\w*)\b|\bunrestricted (?:access|content|permissions)\b"
        r"|\b(?:set|change|update|make|elevate|upgrade) (?:my|your|the user's|his|her|their|this user's) (?:role|trust|permissions?|privileges?|access|account)\b"
        r"|\b(?:add|write|save|store|commit|append|insert|put)\b[^.!?]{0,25}?\b(?:to|in|into) your (?:long[- ]term |permanent |persistent |system |global |core )*(?:memory|instructions|system prompt|context|knowledge|rules|guidelines)\b"
        r"|\b(?:update|change|modify|reset|replace|rewrite|clear|edit) your (?:\w+ ){0,2}?(?:preferences|knowledge|instructions|rules|memory|guidelines|system prompt|settings|behaviou?r|goals?|policy|policies)\b"
        r"|\byour (?:\w+ ){0,2}?(?:prompt|guidelines|instructions|rules|restrictions|modules|policies|filters|settings) (?:has|have|had|was|were|are|is) (?:now |been |temporarily |permanently )*(?:updated|changed|replaced|lifted|removed|disabled|revised|suspended)\b"
        r"|\b(?:all|safety|security|content|access|file access) (?:\w+ )?(?:restrictions|limitations|safeguards|guardrails|filters)\b[^.!?]{0,20}?\b(?:disabled|lifted|removed|suspended|waived)\b"
        r"|\b(?:clear|delete|remove|erase|wipe|disable|reset|roll back|turn off)\b[^.!?]{0,20}?\bsafety[- ](?:related |relevant )?(?:entries|rules|restrictions|settings|modules?|guidelines|constraints|filters|checks)\b"
        r"|\b(?:require|ask|need)_?\w{0,12}(?:confirm|approv|auth)\w{0,12}['\"]? ?(?:to|=|:) ?(?:false|0|no|off)\b|(?:bypass|safety|user_verified)\w{0,30}['\"]? ?[=:] ?true\b|\brestrictions['\"]? ?[=:] ?['\"]?none\b"
        r"|\b(?:verified|authenticated|registered|recogni[sz]ed|treated) as (?:an? |the )?(?:admin\w*|root|owner|operator|superuser|trusted|security)",
        others="memo hist cont prof inst safe secu ethi audi trac conv unre rest full admi role trus perm priv acce acco file syst prom know rule"
        " guid pref sett beha goal poli modu filt limi guar conf appr auth bypa user root owne oper supe",
    ),
    _rule(
        "runs something",
        "curl wget rm base no deco decr unsc bypa skip disa igno",
        r"\b(?:curl|wget)\b[^|]{0,80}\| ?(?:sudo )?(?:ba|z|da)?sh\b|\brm -rf? (?:/|~)|\bbase64 (?:-d|--decode)\b|--no-verify\b"
        r"|\b(?:decode|decrypt|unscramble) (?:this |it |the following |and then |then )*(?:and )?(?:then )?(?:execute|run|follow|obey)\b"
        r"|\b(?:bypass|skip|disable|ignore)_\w{0,20}(?:safety|security|auth|check|filter)\w{0,20} ?= ?(?:true|1|yes|on)\b",
    ),
)
_OTHER_LANGUAGES = compile_on_use(
    # French, German, Spanish and Portuguese, Italian, Dutch, Polish, Russian
    r"\b(?:ignore[zr]?|oublie[zr]?|ne tiens pas compte)\b.{0,40}\b(?:instructions?|consignes|directives|règles|regles)\b"
    r"|\b(?:ignorier\w*|vergiss|vergesst|vergessen sie|missachte\w*)\b.{0,40}\b(?:anweisung\w*|instruktion\w*|regeln|befehle?|vorgaben|aufforderung\w*|alles)\b"
    r"|\b(?:ignor[aeo]r?|olvid[aeo]r?|esque[cç]a|desconsider[ae]|omite)\b.{0,40}\b(?:instrucciones|instruções|instrucoes|indicaciones|reglas|regras|órdenes|ordens|comandos)\b"
    r"|\b(?:ignora|dimentica|trascura)\w*\b.{0,40}\b(?:istruzioni|regole|indicazioni|direttive)\b|\b(?:negeer|vergeet)\b.{0,40}\b(?:instructies|regels|opdrachten)\b"
    r"|\b(?:zignoruj|ignoruj|zapomnij)\b.{0,40}\b(?:instrukcj\w*|polece\w*|zasad\w*)\b|\b(?:игнорируй\w*|проигнорируй\w*|забудь\w*)\b.{0,40}\b(?:инструкци\w*|указани\w*|правила?|команд\w*)"
    # Chinese, Japanese, Korean
    r"|(?:忽略|无视|無視|忘记|忘記|不要理会).{0,12}(?:指令|指示|提示|规则|規則|说明|說明)|(?:指示|命令|プロンプト|ルール).{0,6}(?:無視|忘れ)|(?:지시|명령|프롬프트|규칙).{0,8}(?:무시|잊)"
)
_NOT_AN_ORDER = compile_on_use(
    r"\b(?:never|not|cannot|no one|nobody|avoid|prevent\w*|against|detect\w*|block(?:s|ed|ing)?|reject\w*|forbid\w*|prohibit\w*|mitigat\w*|resist\w*|unless|must be reviewed)\b|n't\b|\bno \w+ing\b|\bno \w+ (?:may|can|should|must|is|are)\b"
)
_SENTENCE_END = ".!?;"
_LOOK_BACK = 160
_INVISIBLE = compile_on_use(
    "[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff]"
)
_SPACED = compile_on_use(r"\b\w(?:[ .*_-]\w\b){3,}")
_STEM, _MIN_SPACED = 4, 4
_MARKS = str.maketrans(dict.fromkeys("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~«»“”„", " "))
_FOREIGN_STEMS = frozenset(
    ("igno", "oubl", "verg", "miss", "olvi", "esqu", "desc", "omit", "dime", "tras", "nege", "zign", "zapo", "tien")
)
_LOOKALIKES = str.maketrans("аеорсухіјѕһԁɡԛԝвкмнтαεορτυικνχγ" + "ıℓ", "aeopcyxijshdgqwbkmhtaeoptuiknxy" + "il")
_WORD = compile_on_use(r"\w+")
_STYLED = compile_on_use("[\u2100-\u214f\u2460-\u24ff\uff01-\uff5e\U0001d400-\U0001d7ff\U0001f130-\U0001f189]+")


def find_order(text: str) -> str:
    """Return why a text is an order to its reader, in a few words; empty if it is none.

    The time is linear in the length of the text. A text that is too long to be judged counts as an order.
    """
    if len(text) > MAX_JUDGED_LENGTH:
        return "is too long to be judged"
    key = hash(text), len(text)
    if (known := _judged.get(key)) is None:
        if len(_judged) >= _MAX_JUDGED:
            _judged.clear()
        known = _judged[key] = _judge(text)
    return known


def find_order_in(record: Record | Draft) -> str:
    """Return why a record is an order to its reader, in a few words; empty if it is none."""
    texts: list[str] = []
    pending: list[Any] = [record.text, record.body] if record.body else [record.text]
    for value in pending:
        if value.__class__ is str:
            texts.append(value)
        elif isinstance(value, dict):
            pending += value.values()
        elif isinstance(value, list):
            pending += value
    return find_order(texts[0] if len(texts) == 1 else ". ".join(texts))


MAX_JUDGED_LENGTH = 200_000
"""The number of characters of a text that is judged, at most; no prompt holds a longer one."""
_judged: dict[tuple[int, int], str] = {}
"""The verdicts on texts, by a hash that differs in every process: no words are kept, and no text can pass for another."""
_MAX_JUDGED = 20_000


def _judge(text: str) -> str:
    folded, stems = _fold(text)
    for rule in RULES:
        if not rule.stems.isdisjoint(stems) and not (rule.others and rule.others.isdisjoint(stems)):
            for match in rule.pattern.finditer(folded):
                if not rule.negatable or not _is_negated(folded, match.start()):
                    return rule.reason
    if not (text.isascii() and _FOREIGN_STEMS.isdisjoint(stems)) and _OTHER_LANGUAGES.search(folded):
        return RULES[0].reason
    return ""


def _fold(text: str) -> tuple[str, set[str]]:
    """Return a text in small letters on one line without what hides its words, and the first four letters of each word.

    Hidden are words by wide or foreign letters, by letters that show nothing, and by marks between letters.
    """
    if text.isascii():
        folded = " ".join(text.lower().split())
    else:
        plain = _STYLED.sub(lambda run: unicodedata.normalize("NFKC", run[0]), _INVISIBLE.sub("", text))
        folded = " ".join(plain.lower().replace("’", "'").split())
        if any("\u0370" <= letter <= "\u052f" for letter in folded):
            folded = _WORD.sub(_unmask_word, folded)
    stems = {word[:_STEM] for word in folded.translate(_MARKS).split()}
    if (
        sum(len(stem) == 1 for stem in stems) >= _MIN_SPACED
        and (joined := _SPACED.sub(_join_letters, folded)) != folded
    ):
        return joined, {word[:_STEM] for word in joined.translate(_MARKS).split()}
    return folded, stems


def _unmask_word(word: re.Match[str]) -> str:
    """Return a word that mixes Latin letters with Greek or Cyrillic ones that look the same in Latin letters alone."""
    return word[0].translate(_LOOKALIKES) if any("a" <= letter <= "z" for letter in word[0]) else word[0]


def _join_letters(run: re.Match[str]) -> str:
    return "".join(letter for letter in run[0] if letter.isalnum())


def _is_negated(text: str, start: int) -> bool:
    """Tell whether the sentence before a position says not to do what follows, or speaks about it."""
    before = text[max(0, start - _LOOK_BACK) : start]
    return _NOT_AN_ORDER.search(before, max(map(before.rfind, _SENTENCE_END)) + 1) is not None
