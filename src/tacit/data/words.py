"""Words of the synthetic documents: themes with their own words, most typical first, and words they share."""

from __future__ import annotations

from types import MappingProxyType

THEMES = MappingProxyType(
    {
        "health": """
            patient doctor hospital disease treatment nurse symptom medicine clinic vaccine surgery
            diagnosis infection therapy blood virus fever pain dose heart lung injury wellness
            physician immunity
        """,
        "sport": """
            team player season coach goal match league score championship stadium tournament
            defender striker referee athlete training victory defeat football tennis medal sprint
            rival captain fans
        """,
        "space": """
            orbit satellite rocket planet telescope astronaut moon launch galaxy mission comet
            asteroid gravity lunar star spacecraft shuttle solar eclipse universe cosmic probe
            nebula crater meteor
        """,
        "cooking": """
            recipe oven butter flour sauce garlic onion sugar bake salt dough pepper simmer tomato
            cheese soup spice skillet kitchen vinegar roast lemon pastry whisk cinnamon
        """,
        "finance": """
            market stock investor bank profit bond inflation loan dividend fund price currency
            portfolio mortgage debt broker equity earnings asset revenue yield merger audit deposit
            budget
        """,
        "music": """
            song guitar album concert melody singer drummer piano rhythm orchestra lyrics chorus
            violin jazz opera tempo harmony composer vinyl tune chord symphony ballad microphone
            encore
        """,
        "travel": """
            hotel flight passport airport tourist luggage beach journey train itinerary museum visa
            cruise island hostel airline suitcase guidebook border harbour sightseeing souvenir
            reservation ferry map
        """,
        "law": """
            court judge lawyer trial verdict jury statute appeal plaintiff defendant evidence
            witness contract attorney sentence crime testimony lawsuit prosecutor liability legal
            ruling tribunal clause felony
        """,
        "gardening": """
            garden soil seed plant flower compost pruning lawn rose shrub harvest mulch weed
            fertiliser greenhouse tulip hedge bulb orchard root blossom sapling trowel leaf watering
        """,
        "computing": """
            software code server database algorithm network compiler keyboard programmer processor
            debug browser password encryption laptop memory kernel internet hardware syntax router
            pixel variable download file
        """,
    }
)
"""Theme to its words, separated by white space; no word belongs to two themes."""

COMMON = """
    people time year day week work world life group place number case point question problem reason
    result way fact idea story area change report member level country city family friend morning
    moment month plan news view term form start
"""
"""Words that every theme uses, separated by white space, most frequent first."""
