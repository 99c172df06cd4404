"""Keys and tokens that start with the literal prefix of a provider, and the format that follows each.

A value in the published format is a token, whatever its characters are. After a prefix that nothing else uses, a value in
another format is a token if it is random enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_FORMATS = (
    ("AKIA ASIA ABIA ACCA AGPA AIDA AROA", r"[A-Z0-9]{16}"),
    ("ABSK", r"[A-Za-z0-9+/]{109,269}={0,2}"),
    ("bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t", r"[A-Za-z0-9+/=]{0,2000}"),
    ("ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36}"),
    ("github_pat_", r"[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("glpat- gldt- glrt- glsoat- glffct- glft- glimt-", r"[\w-]{20,25}|[\w-]{27,300}\.[0-9a-z]{9}"),
    ("glptt-", r"[0-9a-f]{40}"),
    ("glcbt-", r"[A-Za-z0-9]{1,5}_[\w-]{20}"),
    ("glagent-", r"[\w-]{50}"),
    ("gloas-", r"[\w-]{64}"),
    ("GR1348941", r"[\w-]{20}"),
    ("xoxb- xoxp-", r"(?:\d{8,14}-){1,3}(?=\d{0,14}[A-Za-z])[A-Za-z0-9-]{12,250}"),
    ("xoxo- xoxs-", r"\d{4,14}-\d{4,14}-\d{4,14}-[A-Fa-f0-9]{8,64}|\d{8,14}-[A-Za-z0-9-]{12,250}"),
    ("xoxa- xoxr-", r"(?:\d-)?[A-Za-z0-9-]{12,250}"),
    ("xoxe-", r"\d-[A-Za-z0-9]{100,200}|(?:\d{8,14}-){3}[A-Za-z0-9-]{12,64}"),
    ("xoxe.xoxb- xoxe.xoxp-", r"\d-[A-Za-z0-9]{100,200}"),
    ("xapp-", r"\d-[A-Za-z0-9]{4,20}-\d{6,16}-[A-Za-z0-9]{12,100}"),
    ("hooks.slack.com/services/ hooks.slack.com/workflows/ hooks.slack.com/triggers/", r"[\w/+-]{20,200}"),
    ("discord.com/api/webhooks/ discordapp.com/api/webhooks/", r"\d{10,25}/[\w-]{40,100}"),
    ("sk-ant-api03- sk-ant-admin01- sk-ant-oat01-", r"[\w-]{93}AA"),
    ("sk-proj- sk-svcacct- sk-admin- sk-service-", r"[\w-]{20,100}T3BlbkFJ[\w-]{20,100}"),
    ("sk-or-v1-", r"[0-9a-f]{64}"),
    ("sk-", r"(?:[A-Za-z0-9]{48}|(?=[A-Za-z]{0,99}[0-9])[A-Za-z0-9]{20,100})(?![\w-])"),
    ("sk_", r"[0-9a-f]{48}|[0-9a-f]{32}"),
    ("AIzaSy", r"[\w-]{33}"),
    ("ya29.", r"[\w-]{20,2000}"),
    ("GOCSPX-", r"[\w-]{24,40}"),
    (
        "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_",
        r"[A-Za-z0-9]{24}|[A-Za-z0-9]{99}|(?=[A-Za-z]{0,98}[0-9])[A-Za-z0-9]{10,98}",
    ),
    ("whsec_", r"[A-Za-z0-9+/]{32}"),
    ("SK", r"[0-9a-f]{32}"),
    ("SG.", r"[\w-]{16,64}\.[\w-]{16,128}"),
    ("key-", r"[0-9a-f]{32}"),
    ("hf_ api_org_", r"[A-Za-z]{34}|[A-Za-z0-9]{34,37}"),
    ("HRKU-", r"AA[\w-]{58}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("pscale_pw_ pscale_tkn_ pscale_oauth_", r"[\w=.-]{32,64}"),
    ("npm_", r"[A-Za-z0-9]{36}"),
    ("pypi-Ag", r"[\w-]{50,1000}"),
    ("dop_v1_ doo_v1_ dor_v1_", r"[0-9a-f]{64}"),
    ("shpat_ shpca_ shppa_ shpss_", r"[A-Fa-f0-9]{32}"),
    ("shippo_live_ shippo_test_", r"[A-Fa-f0-9]{40}"),
    ("sq0atp- sq0csp-", r"[\w-]{22,60}"),
    ("sqp_ squ_ sqa_", r"[A-Za-z0-9]{40}"),
    ("lin_api_", r"[A-Za-z0-9]{40}"),
    ("ntn_", r"[0-9]{11}[A-Za-z0-9]{35}"),
    ("secret_", r"[A-Za-z0-9]{43}"),
    ("PMAK-", r"[0-9a-f]{24}-[0-9a-f]{34}"),
    ("NRAK- NRII- NRIQ- NRBR- NRJS-", r"[\w-]{19,42}"),
    ("eyJrIjoi", r"[A-Za-z0-9]{70,400}={0,3}"),
    ("glc_", r"[A-Za-z0-9+/]{32,400}={0,3}"),
    ("glsa_", r"[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}"),
    ("dp.pt. dp.st. dp.ct. dp.sa.", r"[A-Za-z0-9]{40,44}"),
    ("hvs.", r"[\w-]{90,120}"),
    ("hvb.", r"[\w-]{138,300}"),
    ("gsk_", r"[A-Za-z0-9]{52}"),
    ("xai-", r"\w{80}"),
    ("pplx-", r"[A-Za-z0-9]{48}"),
    ("r8_", r"[\w-]{37}"),
    ("sbp_", r"[0-9a-f]{40}"),
    ("fo1_", r"[\w-]{43}"),
    ("fm1a_ fm1r_ fm2_", r"[A-Za-z0-9+/]{60,2000}={0,3}"),
    ("ATATT3", r"[\w=.-]{60,300}"),
    ("ATBB", r"[A-Za-z0-9]{32}"),
    ("ATCTT3", r"[\w=.-]{60,300}"),
    ("sntrys_", r"[A-Za-z0-9+/=_]{40,500}"),
    ("sntryu_", r"[0-9a-f]{64}"),
    ("figd_", r"[\w-]{40,60}"),
    ("ops_eyJ", r"[A-Za-z0-9+/]{250,2000}={0,3}"),
    ("A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
    ("xkeysib-", r"[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("pcsk_", r"[A-Za-z0-9]{5,6}_[A-Za-z0-9]{63}"),
    ("lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    ("tskey-", r"[a-z]{3,10}-\w{8,40}-\w{16,60}"),
    ("dckr_pat_", r"[\w-]{27}"),
    ("dckr_oat_", r"[\w-]{32}"),
    ("bkua_", r"[0-9a-z]{40}"),
    ("CCIPAT_", r"[A-Za-z0-9]{22}_[A-Fa-f0-9]{40}"),
    ("nfp_", r"\w{36}"),
    ("rubygems_", r"[0-9a-f]{48}"),
    ("AGE-SECRET-KEY-1", r"[02-9AC-HJ-NP-Z]{58}"),
    ("nvapi-", r"[\w-]{60,70}"),
    ("pul-", r"[0-9a-f]{40}"),
    ("p8e-", r"[A-Za-z0-9]{32}"),
    ("LTAI", r"[A-Za-z0-9]{20}"),
    ("AKCp", r"[A-Za-z0-9]{69}"),
    ("cmVmd", r"[A-Za-z0-9]{59}"),
    ("4b1d", r"[A-Za-z0-9]{38}"),
    ("CLOJARS_ clojars_", r"[A-Za-z0-9]{60}"),
    ("v1.0-", r"[0-9a-f]{24}-[0-9a-f]{146}"),
    ("cfut_ cfat_", r"[A-Za-z0-9]{40}[0-9a-f]{8}"),
    ("duffel_test_ duffel_live_", r"[\w=-]{43}"),
    ("dt0c01.", r"[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}"),
    ("EZAK EZTK", r"[A-Za-z0-9]{54}"),
    ("FLWSECK_TEST- FLWPUBK_TEST- FLWSECK- FLWPUBK-", r"[A-Ha-h0-9]{12}(?:[A-Ha-h0-9]{20}-X)?"),
    ("fio-u-", r"[\w=-]{64}"),
    ("pat. sat.", r"[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    ("pat", r"[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("ico-", r"(?<!\.ico-)[A-Za-z0-9]{32}"),
    ("s-s4t2ud- s-s4t2af-", r"[0-9a-f]{64}"),
    ("sha256~", r"[\w-]{43}"),
    ("pnu_", r"[A-Za-z0-9]{36}"),
    ("phx_", r"\w{43,48}"),
    ("rdme_", r"[0-9a-z]{70}"),
    ("tk-us-", r"[\w-]{48}"),
    ("sm_pat_ sm_aat_ sm_sat_", r"[A-Za-z0-9]{16}"),
    ("sgp_", r"(?:(?:[A-Fa-f0-9]{16}|local)_)?[A-Fa-f0-9]{40}"),
    ("slk_", r"[0-9a-f]{64}"),
    ("rzp_live_ rzp_test_", r"[A-Za-z0-9]{14}"),
    ("access-sandbox- access-development- access-production-", r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
    ("sec-c-", r"[A-Za-z0-9-]{36,50}"),
    ("live_ test_", r"[0-9a-f]{35}|(?=[A-Za-z]{0,29}[0-9])[A-Za-z0-9]{30}"),
    ("tkn.v1_", r"[A-Za-z0-9]{60,100}={0,2}"),
    ("API-", r"[A-Z0-9]{26}"),
    ("dapi", r"[0-9a-f]{32}(?:-\d)?"),
    ("re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,30}"),
    ("EAACEdEose0cBA", r"[A-Za-z0-9]{16,400}"),
    ("EAAM EAAC", r"[A-Za-z0-9]{100,400}"),
    ("EAAA", r"[\w-]{56,70}"),
    ("AccountKey= SharedAccessKey=", r"[A-Za-z0-9+/]{40,100}={0,2}"),
    ("VF.DM. VF.WS. VF.", r"[A-Fa-f0-9]{24}\.[A-Za-z0-9]{16}"),
)
"""Prefixes, and what follows them in the format that the provider or the well-known scanners publish."""

PREFIXES_OF_RANDOM_VALUES = frozenset(
    """ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- gldt- glrt- glsoat- glptt- glcbt- glffct- glft- glimt- glagent- gloas- xapp-
    sk-ant- sk-ant-api03- sk-ant-admin01- sk-ant-oat01- sk-proj- sk-svcacct- sk-admin- sk-service- sk-or- sk-or-v1-
    sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_ whsec_ hf_ HRKU- pscale_pw_ pscale_tkn_ pscale_oauth_
    npm_ pypi-Ag dop_v1_ doo_v1_ dor_v1_ shpat_ shpca_ shppa_ shpss_ shippo_live_ shippo_test_ sq0atp- sq0csp- sqp_ squ_ sqa_
    lin_api_ ntn_ PMAK- NRAK- glc_ glsa_ dp.pt. dp.st. hvs. hvb. gsk_ xai- pplx- r8_ sbp_ fo1_ fm2_ ATATT3 ATBB sntrys_
    sntryu_ figd_ xkeysib- pcsk_ lsv2_pt_ lsv2_sk_ tskey- dckr_pat_ dckr_oat_ bkua_ CCIPAT_ nfp_ secret_ rubygems_
    EAACEdEose0cBA AGE-SECRET-KEY-1 tfp_ nvapi- fw_ csk- key_live_ pul- duffel_test_ duffel_live_ PRIVATE-TOKEN""".split()  # noqa: SIM905 - a list of prefixes reads best as words
)

"""Prefixes after which a value in another format is a token too, if it is random enough."""

RANDOM_VALUE = re.compile(
    r"(?=(?:(?:[A-Za-z0-9]{0,9}+|[A-Za-z]{10,400}+|[0-9]{10,400}+)[_.-]){0,8}"
    r"(?=[A-Za-z0-9]{10})(?:[A-Za-z]{1,400}+[0-9]|[0-9]{1,400}+[A-Za-z]))[\w.-]{16,400}",
    re.ASCII,
)
"""A value of any length, a part of which has letters and digits."""

PROVIDER_TOKENS: dict[str, re.Pattern[str] | None] = dict.fromkeys(sorted(PREFIXES_OF_RANDOM_VALUES)) | {
    prefix: re.compile(f"(?:{rest})(?![A-Za-z0-9])", re.ASCII)
    for prefixes, rest in _FORMATS
    for prefix in prefixes.split()
}
"""The published format by prefix, where there is one."""


def _build_trie_pattern(words: Iterable[str]) -> str:
    """Build a pattern that matches the longest of some words, with one branch for each next letter."""
    by_letter: dict[str, list[str]] = {}
    is_end = False
    for word in words:
        if word:
            by_letter.setdefault(word[0], []).append(word[1:])
        else:
            is_end = True
    branches = [re.escape(letter) + _build_trie_pattern(rests) for letter, rests in by_letter.items()]
    if not branches:
        return ""
    return f"(?:{'|'.join(branches)}){'?' if is_end else ''}" if is_end or len(branches) > 1 else branches[0]


RANDOM_PART = r"(?:[A-Za-z0-9]{0,5}+[_.+/=-]){0,4}[A-Za-z0-9]{6}"
"""Six letters or digits in a row among the first parts of a value: prefixes in a row have none, nearly every token has."""

TOKEN_START = re.compile(
    rf"(?<![A-Za-z0-9])(?=[{''.join(sorted({prefix[0] for prefix in PROVIDER_TOKENS}))}])"
    rf"{_build_trie_pattern(PROVIDER_TOKENS)}(?={RANDOM_PART})",
    re.ASCII,
)
"""The start of every token. One search for all prefixes takes less time than a search for each."""
