"""Moves of dead letters.

moves.py                      which are due, under way and unfinished
parts.py, producer.py         what a move reads, and appends to its target
"""
