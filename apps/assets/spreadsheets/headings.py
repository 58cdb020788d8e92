"""Fields of an asset that a column can have, and headings that usually mean them. Pure.

Headings are English, German, French and Spanish. A guess is a proposal on the mapping page.
"""

import re
from collections.abc import Sequence

from apps.core.spreadsheets.columns import Column, plain

# Fields that a column can be assigned to, with their labels.
FIELDS = {
    "name": "Name", "tag": "Inventory number", "serial": "Serial number",
    "manufacturer": "Manufacturer", "model": "Model", "category": "Kind or category",
    "quantity": "Quantity", "capacity": "Capacity with unit", "capacity_tb": "Capacity (TB)",
    "capacity_gb": "Capacity (GB)", "bought_on": "Purchase date", "in_use_since": "In use since",
    "ended_on": "End of use", "price": "Price per item", "currency": "Currency",
    "supplier": "Supplier", "status": "Status", "owner": "Owner (project)", "site": "Site",
    "location": "Location", "parent": "Built into", "warranty_until": "Warranty until",
    "warranty_months": "Warranty (months)", "life_years": "Planned life (years)",
    "note": "Note", "kind": "Kind of LabCarbon", "retired_on": "Taken out of use on",
    "disposed_on": "Disposed of on", "second_hand": "Second-hand (yes, no)",
    "amortisation": "Amortisation (linear, sci)", "embodied_kg": "Embodied carbon (kg)",
    "embodied_low_kg": "Embodied, low (kg)", "embodied_high_kg": "Embodied, high (kg)",
    "embodied_source": "Embodied, source", "embodied_manufacture_kg": "Manufacture (kg)",
    "embodied_transport_kg": "Transport (kg)", "embodied_end_of_life_kg": "End of life (kg)",
    "embodied_includes_end_of_life": "Includes end of life", "end_of_life": "Kind of end of life",
    "mass_kg": "Mass (kg)", "mass_g": "Mass (g)", "recipient": "Recipient (buyer, recycler)",
    "end_of_life_kg": "End-of-life emissions (kg)",
    "end_of_life_source": "End-of-life emissions, source", "leased": "Leased (yes, no)",
    "lessor": "Lessor", "lease_start": "Start of lease", "lease_end": "End of lease",
}  # fmt: skip

_HEADINGS = {
    "name": "name asset_name item_name hostname device geraet geratename geratebezeichnung gerat"
    " bezeichnung beschreibung description descripcion designation nom nombre equipo equipement"
    " gegenstand artikel article computer_name",
    "tag": "tag asset_tag inventory_number inventory_no inventarnummer inventarnr inventar_nr"
    " inventory_id asset_id anlagennummer numero_de_inventario n_o_de_inventario numero_inventario"
    " numero_d_inventaire no_d_inventaire n_d_inventaire no_inventaire codigo_de_inventario",
    "serial": "serial serial_number serial_no seriennummer seriennr serien_nr sn s_n"
    " numero_de_serie n_o_de_serie no_de_serie n_de_serie",
    "manufacturer": "manufacturer maker brand vendor hersteller marke fabricant fabricante marque"
    " marca",
    "model": "model model_name product device_type modell modellbezeichnung typbezeichnung"
    " produkt modele modelo produit producto",
    "category": "category type_of_device asset_type kategorie gerateart geratetyp art"
    " categorie categoria type_de_materiel tipo tipo_de_equipo",
    "quantity": "quantity qty count pieces number_of_items anzahl menge stuck stuckzahl quantite"
    " nombre_d_unites qte cantidad unidades",
    "capacity": "capacity disk_size size storage_size kapazitat speichergrosse speicherkapazitat"
    " capacite capacidad",
    "capacity_tb": "capacity_tb size_tb kapazitat_tb capacite_to capacidad_tb",
    "capacity_gb": "capacity_gb size_gb kapazitat_gb capacite_go capacidad_gb",
    "bought_on": "bought_on purchase_date purchased purchased_on date_of_purchase date_purchased"
    " order_date kaufdatum anschaffungsdatum anschaffung gekauft_am beschaffungsdatum date_d_achat"
    " date_achat date_d_acquisition fecha_de_compra fecha_compra fecha_de_adquisicion",
    "in_use_since": "in_use_since in_service_since startup_date inbetriebnahme"
    " date_de_mise_en_service fecha_de_puesta_en_servicio",
    "ended_on": "ended_on disposal_date date_of_disposal decommission_date"
    " decommissioned_on ausgesondert_am ausgemustert_am abgang abgang_am abgangsdatum"
    " aussonderung nutzungsende ende_der_nutzung end_of_use date_de_reforme date_de_sortie"
    " fin_d_utilisation fecha_de_baja fecha_baja fecha_de_salida fin_de_uso",
    "end_of_life": "kind_of_end type_of_end kind_of_disposal disposal_type disposal_method"
    " method_of_disposal disposal_reason abgangsart art_des_abgangs abgangsgrund aussonderungsgrund"
    " entsorgungsart verbleib motif_de_sortie mode_de_sortie type_de_sortie motif_de_reforme"
    " motivo_de_baja tipo_de_baja causa_de_baja destino_final",
    "mass_kg": "mass weight weight_kg gewicht gewicht_kg masse_kg poids poids_kg peso peso_kg masa"
    " masa_kg",
    "mass_g": "weight_g gewicht_g masse_g poids_g peso_g masa_g",
    "recipient": "recipient buyer disposed_to sold_to donated_to empfanger kaufer entsorger"
    " abgegeben_an verkauft_an acheteur acquereur repreneur destinataire comprador destinatario",
    "leased": "lease leasing is_leased geleast ownership acquisition_type beschaffungsart"
    " erwerbsart mode_d_acquisition type_d_acquisition en_leasing loue forma_de_adquisicion"
    " tipo_de_adquisicion arrendado",
    "lessor": "leasing_company lease_company leasinggeber leasinggesellschaft leasingfirma"
    " leasingpartner vermieter bailleur loueur societe_de_leasing arrendador empresa_de_leasing",
    "lease_start": "lease_start_date lease_from leasingbeginn leasing_beginn leasingstart"
    " leasing_ab leasing_von debut_de_leasing debut_du_leasing debut_leasing debut_de_location"
    " debut_du_credit_bail inicio_de_leasing inicio_del_leasing inicio_leasing"
    " inicio_del_arrendamiento",
    "lease_end": "lease_end_date lease_until lease_expires leasingende leasing_ende leasing_bis"
    " fin_de_leasing fin_du_leasing fin_leasing fin_de_location fin_du_credit_bail fin_del_leasing"
    " fin_del_arrendamiento vencimiento_del_leasing",
    "price": "price unit_price purchase_cost purchase_price cost price_per_item preis kaufpreis"
    " einzelpreis stuckpreis anschaffungspreis prix prix_unitaire prix_d_achat precio"
    " precio_unitario coste",
    "currency": "currency wahrung devise moneda",
    "supplier": "supplier lieferant handler fournisseur proveedor",
    "status": "status state zustand statut etat estado situacion",
    "owner": "owner project owner_project eigentumer projekt projet proyecto",
    "site": "site standort sitio sede",
    "location": "location room ort raum lieu emplacement salle ubicacion sala",
    "parent": "parent parent_device built_into eingebaut_in installe_dans instalado_en",
    "warranty_until": "warranty_until warranty_expires garantie_bis fin_de_garantie"
    " garantia_hasta fin_de_garantia",
    "warranty_months": "warranty_months warranty garantie_monate",
    "life_years": "life_years planned_life nutzungsdauer duree_de_vie vida_util",
    "kind": "kind",
    "note": "note notes comment comments bemerkung bemerkungen notiz kommentar anmerkung"
    " remarque commentaire notas observaciones comentario",
}  # fmt: skip
FIELD_BY_HEADING = {
    heading: field for field, headings in _HEADINGS.items() for heading in headings.split()
}


def guess(heading: str) -> str:
    """Return the field that a heading usually means, '' if unknown."""
    whole = plain(heading)
    without_brackets = plain(re.sub(r"[(\[].*?[)\]]", "", heading))
    named = whole if whole in FIELDS else FIELD_BY_HEADING.get(whole)
    if named or without_brackets == whole:
        return named or ""
    field = FIELD_BY_HEADING.get(without_brackets, "")
    return "" if field == "mass_kg" else field  # "Weight (lb)"


def guesses(columns: Sequence[Column]) -> dict[str, str]:
    """Return the guessed field of each column. A field is proposed once, for its first column."""
    fields: dict[str, str] = {}
    for column in columns:
        field = guess(column.heading)
        fields[column.key] = "" if field in fields.values() else field
    return fields
