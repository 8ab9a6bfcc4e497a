"""`tacit app`: web pages for the person who holds the data. Needs ``tacit[app]``; the pages are served on this computer only.

May be imported by `cli`.
"""
