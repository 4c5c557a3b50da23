"""Policies, runs and environments of dbqpg, for Python.

dbqpg trains policies by Deep Bayesian Quadrature Policy Optimization; its programs are written in Go. This package is
what stands beside them in Python. It needs NumPy alone; what needs more says so when it is used.
"""
