"""LabCarbon: the energy and carbon of a lab's machine learning."""

__version__ = "0.1.0"
