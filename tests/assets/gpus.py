"""A lab's GPUs as its administrator keeps them in a spreadsheet: 40 cards under the names that
people really write.
"""

CARDS = (
    ("A100-SXM4-80GB", 8), ("NVIDIA A100-PCIE-40GB", 4), ("RTX 3090", 8),
    ("GeForce RTX 2080 Ti", 6), ("Tesla V100-SXM2-32GB", 4), ("V100", 2), ("RTX A6000", 4),
    ("H100 80GB HBM3", 2), ("Quadro P6000", 1), ("Matrox Millennium", 1),
)  # fmt: skip


def own_csv(cards: tuple[tuple[str, int], ...] = CARDS) -> str:
    """Return a file of our own columns: a server, and the cards in it."""
    lines = [
        (
            "name,kind,model,serial,tag,price,currency,bought_on,in_use_since,life_years,owner,"
            "site,parent"
        )
    ]
    lines.append("gpu-01,server,,SRV1,INV-0,21000.00,EUR,2024-03-01,2024-03-01,6,,Room 1,")
    number = 0
    for model, count in cards:
        for _ in range(count):
            number += 1
            lines.append(
                "card "
                f"{number},gpu,{model},SN{number:05d},INV-{number},1234.50,EUR,2024-03-01,"
                "2024-03-15,5,demo,,INV-0"
            )
    return "\n".join(lines) + "\n"


NETBOX = """\
Name,Status,Tenant,Site,Location,Rack,Role,Manufacturer,Type,Serial number,Asset tag,Parent Device,IP Address
gpu-01,Active,Vision,Room 1,Aisle 2,R7,GPU server,Dell,PowerEdge R750xa,SRV1,INV-0,,10.0.0.4
card-1,Active,Vision,Room 1,,,GPU,NVIDIA,A100-SXM4-80GB,SN1,INV-1,gpu-01,
old-node,Decommissioning,Vision,Room 1,,,Server,HPE,DL380,SRV0,INV-9,,
sw-1,Planned,,Attic,,,Access switch,Arista,DCS-7050,SW1,INV-3,,10.0.0.2
"""  # noqa: E501

SNIPE_IT = """\
Asset Name,Asset Tag,Serial,Model,Model No.,Category,Status,Checked Out To,Location,Purchase Date,Purchase Cost,Supplier,\
Warranty,Manufacturer,Notes
Card 1,INV-1,SN1,A100-SXM4-80GB,900-21001,Graphics Cards,Deployed,gpu-01,Room 1,2024-03-01,"11,250.00",Acme,36 months,NVIDIA,
Exos,INV-2,SN2,Exos X16 16TB,,Hard Drives,Ready to Deploy,,Store,2024-03-01,250.00,Acme,,Seagate,spare
"""  # noqa: E501
