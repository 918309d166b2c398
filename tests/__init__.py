"""The net, and tests of the inside.

``contract`` is what the README's command runs. It knows the public interface alone, and independent
references, ``reference*``. Its one table of estimators is in ``contract/cases.py``, its judge of
certificates in ``contract/judge.py``. The other folders mirror those of the package; ``project``
holds the project to its structure and size. No file of tests imports another.
"""
