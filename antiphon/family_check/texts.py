"""Texts of requests, from two words to a paragraph."""

TEXTS = (
    "Good morning.",
    "One moment, please.",
    "Yes, that works.",
    "Turn left after the bridge.",
    "Your parcel arrives tomorrow before noon.",
    "I could not find that song. Shall I play another?",
    "The kettle is on, and the bread is almost done.",
    "It will rain in the evening, so take a coat with you.",
    "Platform nine has been changed: the train now leaves from eleven.",
    "Of course. I have moved your appointment to Thursday at a quarter past three.",
    "There are two letters on the table, and neither of them is for you.",
    "The museum closes at six, but the garden behind it stays open until dark.",
    "Press the green button, wait for the light, and then close the lid.",
    "She laughed, put the map away, and asked the driver to go on as before.",
    "Three of the seven lamps were lit; nobody remembered who had lit them, or when.",
    "Please repeat the last four digits of the number that you would like to call.",
    "We walked along the harbour for an hour and counted the boats that were coming home.",
    "What the machine needs is not more power but a little oil and somebody who listens to it.",
    "The recipe asks for two eggs, a cup of flour and a pinch of salt, and then for patience.",
    "If the door does not open at once, pull it towards you while you turn the key to the right.",
    "He had read the book twice before he noticed that the two brothers never speak to each other.",
    "Thank you for waiting. All the details are in the message that I have just sent to you, and"
    " you can call us again at any hour of the day.",
    "The river rises in a field that no map calls by name, runs past four mills, and is already"
    " wide by the time it reaches the first town.",
    "In the first week the apprentices only watched. In the second they were allowed to sweep. In"
    " the third, one of them was handed a hammer, and the others held their breath.",
    "Snow had fallen all night. By morning the fences were gone, the road was a guess between two"
    " rows of trees, and the dog stood at the window as if it had been robbed.",
    "A choir does not begin with singing. It begins with forty people who breathe in at the same"
    " time, and for that short moment the whole hall is quiet, and everybody in it knows why.",
    "The lighthouse had been empty for years when the lamp was seen again. Fishermen talked about"
    " it, the mayor denied it, and in the end two children rowed out with a basket of apples and"
    " came back without it, saying nothing.",
    "To reset the device, hold both buttons for ten seconds until the display goes dark. Release"
    " them, wait for the short tone, and then choose your language. If you hear a long tone"
    " instead, the battery is too low, and you should charge it for an hour before you try again.",
    "My grandfather repaired clocks, and he held that each of them had a temper. The tall one in"
    " the hall was proud and never late; the one in the kitchen sulked when it rained. He wound"
    " them on Sundays, all eleven, and talked to them while he did it, so that for years I thought"
    " that talking was what made them go.",
    "Listen to the second voice, the lower one. It enters a little after the first, repeats what it"
    " has heard, and changes one note. Then the first voice takes up the change and answers with a"
    " change of its own. Nothing else happens in the whole piece, and yet nobody has ever been able"
    " to leave before it was over.",
)
"""Texts of our own, shortest first."""
