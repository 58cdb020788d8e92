"""Words of a spreadsheet for the state, the end of life and the lease of an asset, in English,
German, French and Spanish. Pure.

Words are compared as :func:`apps.assets.spreadsheets.headings.plain` returns them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from apps.assets.choices import EndOfLife, EventKind
from apps.core.errors import InvalidInput
from apps.core.spreadsheets.columns import plain


@dataclass(frozen=True)
class Ending:
    """How a life ended. ``end_of_life`` '': out of use, or disposed of in an unknown way."""

    event: EventKind
    end_of_life: str = ""


_RETIRED = Ending(EventKind.RETIRE)
_DISPOSED = Ending(EventKind.DISPOSE)
_WORDS: Mapping[Ending, str] = {
    _RETIRED: "archived, decommissioning, decommissioned, retired, broken, out of service,"
    " ausgemustert, ausgesondert, ausser betrieb, hors service, reforme, retire, retirado,"
    " dado de baja, de baja",
    # "Lost/Stolen" is one state of Snipe-IT.
    _DISPOSED: "disposed, disposed of, entsorgt, entsorgung, desechado, elimine, lost stolen,"
    " stolen lost, verloren gestohlen, perdu vole, perdido robado",
    Ending(EventKind.DISPOSE, EndOfLife.RESOLD): "resold, sold, verkauft, weiterverkauft,"
    " verkauf, vendu, revendu, vente, vendido, revendido, venta",
    Ending(EventKind.DISPOSE, EndOfLife.DONATED): "donated, donation, gespendet, spende,"
    " verschenkt, geschenkt, donne, donado, donacion, regalado",
    Ending(EventKind.DISPOSE, EndOfLife.RECYCLED): "recycled, recycling, scrapped, scrap, recycelt,"
    " verschrottet, verschrottung, schrott, elektroschrott, recycle, recyclage, mis au rebut,"
    " mise au rebut, rebut, deee, reciclado, reciclaje, desguazado, achatarrado, chatarra, raee",
    Ending(EventKind.DISPOSE, EndOfLife.LOST): "lost, verloren, verlust, unauffindbar, perdu,"
    " perte, egare, perdido, perdida, extraviado",
    Ending(EventKind.DISPOSE, EndOfLife.STOLEN): "stolen, theft, gestohlen, diebstahl, entwendet,"
    " vole, derobe, robado, hurtado",
    Ending(EventKind.DISPOSE, EndOfLife.LEASE_RETURNED): "lease returned, lease return,"
    " returned to lessor, leasing returned, leasingruckgabe, leasing ruckgabe, leasing beendet,"
    " ruckgabe an leasinggeber, an leasinggeber zuruckgegeben, zuruck an leasinggeber,"
    " retour leasing, fin de leasing, rendu au bailleur, restitue au bailleur, fin del leasing,"
    " leasing devuelto, devuelto al arrendador",
}
# Words that mean an end only in a column of it: a returned asset may be back from a loan.
_COLUMN_WORDS: Mapping[Ending, str] = {
    Ending(EventKind.DISPOSE, EndOfLife.DONATED): "gift, don",
    Ending(EventKind.DISPOSE, EndOfLife.STOLEN): "vol, robo",
    Ending(EventKind.DISPOSE, EndOfLife.LEASE_RETURNED): "returned, zuruckgegeben,"
    " zurueckgegeben, ruckgabe, rueckgabe, rendu, restitue, retourne, devuelto, devolucion,"
    " leasing, lease, credit bail",
}
_IN_USE = {
    "active", "deployed", "in use", "deployable deployed", "in production", "in betrieb",
    "in benutzung", "in verwendung", "im einsatz", "aktiv", "en service", "en production", "actif",
    "utilise", "en uso", "activo", "en servicio",
}  # fmt: skip
_STOCK = {
    "", "in stock", "inventory", "planned", "staged", "offline", "failed", "ready to deploy",
    "pending", "undeployable", "deployable", "requestable", "lager", "auf lager", "im lager",
    "reserve", "en stock", "en reserve", "en almacen", "almacen", "disponible",
}  # fmt: skip
_LEASED = {
    "lease", "leased", "leasing", "rented", "rental", "geleast", "gemietet", "miete", "mietgerat",
    "loue", "location", "location longue duree", "credit bail", "en leasing", "arrendado",
    "arrendamiento", "alquilado", "alquiler", "renting",
}  # fmt: skip
_OWNED = {
    "purchase", "purchased", "bought", "owned", "own", "kauf", "gekauft", "eigentum", "eigen",
    "achat", "achete", "propriete", "compra", "comprado", "propio", "propiedad",
}  # fmt: skip
_NO_ENDING = {"", "none", "keine", "aucun", "ninguno"}


def _by_word(words: Mapping[Ending, str]) -> dict[str, Ending]:
    return {word: ending for ending, text in words.items() for word in text.split(", ")}


_STATUS_ENDINGS = _by_word(_WORDS)
_COLUMN_ENDINGS = _STATUS_ENDINGS | _by_word(_COLUMN_WORDS)


def _words_of(text: str) -> str:
    return plain(text).replace("_", " ")


def _word_in(text: str, words: Iterable[str]) -> str | None:
    """Return the longest of ``words`` with which ``text`` begins."""
    begins = (word for word in words if text == word or (word and text.startswith(f"{word} ")))
    return max(begins, key=len, default=None)


def ending_of(status: str) -> Ending | None:
    """Return how a life ended by its status, None if it has not ended."""
    text = _words_of(status)
    word = _word_in(text, _STATUS_ENDINGS)
    if word is None and text.endswith("archived"):
        word = "archived"
    return _STATUS_ENDINGS[word] if word else None


def state_of(status: str) -> str:
    """Return "use", "over", "stock", or "unknown" for a status.

    A status can contain more text ("Deployed to …").
    """
    text = _words_of(status)
    if ending_of(status) is not None:
        return "over"
    if _word_in(text, _IN_USE) is not None or text.endswith("deployed"):
        return "use"
    return "stock" if _word_in(text, _STOCK) is not None else "unknown"


def stated_ending(text: str) -> Ending | None:
    """Return the ending that a column of ends of life names, None if none. Raises InvalidInput."""
    words = _words_of(text)
    if words in _NO_ENDING:
        return None
    word = _word_in(words, _COLUMN_ENDINGS)
    if word is None:
        raise InvalidInput(
            f"{text[:40]!r} is not an end of life.",
            field="end_of_life",
            hint=f"Write {', '.join(EndOfLife.values)}, or leave it empty.",
        )
    return _COLUMN_ENDINGS[word]


def is_ending(text: str) -> bool:
    """Return whether a cell of a column of ends of life names one."""
    return _word_in(_words_of(text), _COLUMN_ENDINGS) is not None


def is_lease(text: str) -> bool | None:
    """Return whether a word means a lease (True) or a purchase (False), None if neither."""
    words = _words_of(text)
    if words in _LEASED:
        return True
    return False if words in _OWNED else None
