"""The net, and tests of the inside.

``contract`` is what the README's command runs. It knows the public interface alone, and independent
references: any implementation that passes it may take the place of today's. Its one table of
estimators is in ``contract/cases.py``, its judge of certificates in ``contract/judge.py``.

``reference*`` compute optima and formulas without the package. The other folders mirror those of
the package, with tests of single modules, which go when their family is rewritten; ``project``
holds the project to its structure and size. No file of tests imports another.
"""
