"""Recommenders from clicks, plays and purchases: an item-item regression, without privacy and with privacy per user.

Within `factor`, may be imported by nothing else.
"""
