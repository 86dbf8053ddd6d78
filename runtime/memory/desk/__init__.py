"""The one path by which experiences are written and read, by agents and by the house.

The way in is `desk`; what the house keeps of tools' results by itself comes in by `recorder`.
"""
