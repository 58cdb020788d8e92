"""Kind and category of hardware that words of a role or category name. Pure.

English, German, French and Spanish. Such words count only where the catalogue has no model.
"""

import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Role:
    """A kind of hardware, and a category of the catalogue's defaults ('' none)."""

    kind: str
    category: str = ""


DISK = "disk"  # a storage device whose type is not named
_NAS = Role("storage", "nas")
_ACCESSORY = (
    r"\bdock|docking|station d.accueil|base de conexi|accessor|accessoire|accesori|zubeh"
    r"|netzteil|power supply|charger|chargeur|ladeger|cargador|keyboard|tastatur|clavier|teclado"
    r"|\bmouse\b|\bmaus\b|souris|rat[oó]n\b|headset|webcam|\bcables?\b|kabel\b|c[âa]bles?\b"
    r"|(monitor|laptop|notebook|screen|bildschirm)s?[ -]?(arm|stand|mount|halter|ständer)"
    r"|printer|drucker\b|imprimante|impresora|\bphones?\b|smartphone|telefon|t[ée]l[ée]phone"
    r"|tel[ée]fono"
    r"|soporte (de|para)|support (de|pour)|\b(usb|hdmi|vga|netz)[ -]?adapter|tasche\b|\bbag\b"
)
# They have no default. A "server with licence" is a server.
_WITH = r"\b(incl|inkl|including|with|mit|avec|con|w/|and|und|et|hardware)\b"
_OTHER_ITEM = (
    r"^(?!.*" + _WITH + r").*("
    r"\bsoftware\b|licen[cs]e|lizenz|licencia|subscription|abonnement"
    r"|server ?racks?( \d\d ?(u|he))?$|rack ?cabinet|schrank|armoire|armario"
    r"|\brails?\b|rail ?kit|montageschiene"
    r"|\b(ups|usv|onduleur|sai)\b|uninterruptible|unterbrechungsfrei"
    r"|(laptop|notebook|server|raid|cmos)[ -]?(akku|batter)|^(ersatz)?akku|^batter|^bater[ií]a"
    r"|\b(cpu|gpu|geh[äa]use|case)[ -]?(cooler|k[üu]hler|l[üu]fter|fan)|heatsink|thermal paste"
    r"|(gpu|graphics card|grafikkarten?)[ -]?(bracket|halter|riser)"
    r"|grafiktablet|graphics? tablet|tablette graphique|tableta gr[áa]fica"
    r"|tisch(e|en)?\b|\bdesks?\b|stuhl\b|\bchairs?\b|\bmesa de\b"
    r"|(laptop|notebook)[ -]?(sleeve|case|backpack|rucksack|h[üu]lle)|dongle|protector|schutzfolie"
    r"|leinwand|\bvesa\b|klimaanlage|klimager|air condition|climatisation|aire acondicionado"
    r"|(ssd|hdd|usb|m\.2)[ -]?(enclosure|geh[äa]use|caddy)|\bpc[ -]?(geh[äa]use|case)\b"
    r"|printer|drucker|imprimante|impresora|scanner|\bbeamer\b|proje[ck]tor|camera|kamera|c[áa]mara"
    r"|warranty extension|garantieverl|wartungs|maintenance|service contract|mantenimiento"
    r"|^(installation|versand|shipping|delivery|lieferung|fracht|total|summe|subtotal)\b"
    r")"
)
# The first rule whose pattern occurs decides.
_RULES = (
    (Role("other"), _ACCESSORY),
    (Role("other"), _OTHER_ITEM),
    (
        Role("other", "memory"),
        (
            r"arbeitsspeicher|\bram\b|\b[rl]?dimms?\b|\bso-?dimm|\bddr[2345]\b"
            r"|memory (module|kit|card)|^memory$|speichermodul|m[ée]moire vive|barrette"
            r"|m[óo]dulo de memoria"
        ),
    ),
    (
        Role("server", "gpu_server"),
        (
            r"gpu[ -]?(server|node|rechner|knoten|cluster)"
            r"|(server|node|serveur|servidor|nodo)s? gpu|\b[dh]gx\b"
        ),
    ),
    (Role("storage", "ssd"), r"\bssds?\b|\bnvme|solid[ -]?state|flash[ -]?(drive|disk|storage)"),
    (
        Role("storage", "hdd"),
        r"\bhdds?\b|hard[ -]?(disk|drive)s?|nearline|\bsas\b|disques? durs?|discos? duros?",
    ),
    (
        _NAS,
        (
            r"\bnas\b|file ?server|\bfiler\b|disk ?array|\bjbod\b|\bsan\b|dateiserver"
            r"|storage[ -](server|system|node|array|appliance)|speichersystem"
        ),
    ),
    (
        Role("storage", DISK),
        r"\bdis[ck]s?\b|\bdrives?\b|festplatte|laufwerk|\bdisques?\b|\bdiscos?\b",
    ),
    (Role("gpu"), r"\bgpus?\b|graphic|graphique|grafik|gr[áa]fica|accelerator|beschleuniger"),
    (Role("monitor"), r"monitor|display|screen|bildschirm|[ée]cran|pantalla"),
    (Role("laptop"), r"laptop|notebook|macbook|portable|port[áa]til"),
    (Role("workstation", "desktop"), r"desktop|sobremesa|ordinateur de bureau"),
    (
        Role("workstation"),
        (
            r"workstation|arbeitsplatz|tower pc|\bpcs?\b|computer|ordinateur|ordenador"
            r"|estaci[óo]n de trabajo|station de travail"
        ),
    ),
    (Role("network", "switch"), r"switch|commutateur|conmutador"),
    (Role("network"), r"network|netzwerk|r[ée]seau|router|routeur|firewall|access point"),
    (Role("cpu"), r"\bcpus?\b|processor|prozessor|processeur|procesador"),
    (
        Role("server"),
        (
            r"server|serveur|servidor|node\b|nodes\b|knoten|n[œo]e?ud\b|\bnodos?\b|compute|hypervisor"
            r"|blade|rechner"
        ),
    ),
    (Role("storage"), r"storage|speicher|stockage|almacenamiento"),
)


@cache
def _patterns() -> tuple[tuple[Role, re.Pattern[str]], ...]:
    return tuple((role, re.compile(pattern)) for role, pattern in _RULES)


def role_of(words: str) -> Role | None:
    """Return the role that ``words`` name, None if they name none."""
    text = words.strip().lower()
    return next((role for role, pattern in _patterns() if pattern.search(text)), None)


def category_of(kind: str, words: str, more: str) -> str:
    """Return the category of ``kind`` that the words of a role, or those of a model and name
    (``more``), name; '' if none.
    """
    named = role_of(words)
    if named == _NAS and kind == _NAS.kind:
        return named.category
    text = f"{words} {more}".strip().lower()
    return next(
        (
            role.category
            for role, pattern in _patterns()
            if role.kind == kind and role.category and pattern.search(text)
        ),
        "",
    )
