"""Trials that try to break what RELIABILITY.md promises: kills, lost power, full disks, damage, lost processes and
machines.
"""
