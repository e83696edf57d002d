"""Contexts that decide how numbers and short forms are read; rows as `contexts` describes."""

from antiphon.text.contexts import contexts, words
from antiphon.text.word_table import BOOK_NAMES, DAY_NAMES, MONTH_NAMES

_DAYS = frozenset(day.lower() for pair in DAY_NAMES.items() for day in pair)
_MONTHS = frozenset(name.lower() for name in MONTH_NAMES)
_DIGIT = words(
    """
    account agent booking call card case claim code combination confirmation cvv dial ext extension
    id invoice isbn key licence license number order otp passcode password phone pin plate policy
    postcode ref reference serial ssn text ticket tracking upc vin zip zipcode
    """
)
_YEAR = words(
    """
    after and autumn before between born by circa class copyright died during early established fall
    founded from in late mid of since spring summer through till to until winter year years fy
    """
)
_DETERMINER = words("a an another each every her his its my our that the their this your")
NOT_COUNTED = words(
    """
    a an and are as at back because before between but by did each every extra for from had has he
    i if in into is it last later left less lost more next now off on or out over owed paid per
    raised she so spent than that the they to today total under up was we were when which while
    who will with yesterday you
    """
)
"""Words that follow an amount without being what it counts."""

# By the number of digits; 0: a leading zero, h: whole hundreds.
NUMBER_STYLES = contexts(
    """
    0 4 4h 5 5h 6 6h 7 7h 8 8h 9 9h | {digit} ending_in last_four text_to | * | digits
    3 3h | call code cvv dial ext extension otp passcode pin text ending_in | * | digits
    5 6 | ~text ~texts ~texting | * | digits
    4 | <acronym> | * | acronym
    4 | * | form forms | pairs
    3 4 | airbus apartment apt area boeing building bus channel dl error errors exit flight \
flights flt form highway http hwy interstate model rm room route rte status ste suite train ua \
unit wn ~flight | * | pairs
    model | airbus boeing model | * | pairs
    code | {digit} no nos docket | * | digits
    3 4 | * | <section> | pairs
    5 5h 6 6h 7 8 9 | airbus apartment boeing flight model room route suite unit <state> | * | \
digits
    4 4h | * | {not_nouns} | year
    4 4h | * | people men women children feet percent dollars <plural> | count
    4 4h | {year} | * | year
    """,
    digit=_DIGIT,
    year=_YEAR,
    not_nouns=words(
        """
        across always as besides brings does has his is its perhaps plus sees this thus towards us
        versus was whereas yes
        """
    ),
)
# Two numbers with a slash (/) or a colon (:) between.
PAIR_STYLES = contexts(
    """
    / | * | time meter signature | apart
    / | * | star stars point points | out of
    / | attempt attempts average chapter day episode gave gets got grade graded level page part \
pain question quiz rate rated rating review score scored scores scoring step stage test it_a \
him_a her_a week_day | * | out of
    / | bp pressure pressures mmhg temps | * | over
    / | after before between born by date dated deadline due ending expires from on since \
starting through till until week weeks night shipped arrived ordered delivered sent received \
posted paid {days} | * | date
    / | * | on | out of
    : | {books} | * | verse
    : | ratio ratio_of odds odds_of scale scale_of | * | to
    : | * | aspect display mix odds ratio ratios scale screen split video | to
    """,
    books=BOOK_NAMES,
    days=_DAYS,
)
AMOUNTS = contexts(
    """
    $ unit | * | {not_counted} <end> | many
    $ unit | {determiner} x | <small> <name> | one
    $ | * | bill bills note notes coin coins question | one
    unit | * | angle angles turn rotation film lead lens pistol ammo round rounds bullet bullets \
wrench bulb bulbs battery socket drive drives bottle bottles can cans service shift clock \
notice warranty waist inseam monitor | one
    """,
    not_counted=NOT_COUNTED,
    determiner=_DETERMINER,
)
"""Whether the currency or the unit of an amount is spoken once, as an attribute of a noun."""
LETTERS = contexts(
    """
    capital | airbus apartment apt area boeing building bus channel exit figure flight form gate \
highway model room route row rows seat seats gates section step suite table train unit | * | name
    F | to at of oven was is around reached hit about between preheated over and from fever temp \
temperature - \u2013 | * | scale
    F | * | oven outside today overnight tonight | scale
    c | * | <small> | cup
    """
)
"""Letters behind a number that are names, or short forms of units."""
SECONDS = contexts(
    """
    s | in after within every for about around under over below only just another than from to by \
at last next first took take takes taking taken lasts lasted wait waits waited hold rest sleep \
sleeps pause pauses ran runs add plus minus between is was approximately nearly almost exactly a \
min mins minute minutes hour hours timeout delay per each = : < > ~ | * | seconds
    s | * | delay timeout interval window break later ago remaining left clip video before after \
elapsed faster slower long pause countdown timer limit rest hold plank sprint latency gap | seconds
    decade | and early her his its late mid my our the their your | * | decade
    decade | * | to and or in at for of on before after is | seconds
    decade | * | <small> | named
    """
)
"""Whether "s" behind a number stands for seconds or for a plural."""
MILITARY = contexts("0 | the at by until till from to before after around between since | * | time")
DAYS = contexts(
    """
    Mon Sat Sun Wed | on every next last this by until and & {days} | * | day
    Mon Sat Sun Wed | * | {days} {months} <number> | day
    """,
    days=_DAYS,
    months=_MONTHS,
)
"""Short names of days that are words too."""
PLACES_IN_TOWN = contexts(
    """
    N S E W NE NW SE SW | ave avenue st street blvd rd road ave_. st_. blvd_. rd_. | * | compass
    N S E W | ~i ~us ~route ~rte ~highway ~hwy ~interstate | <end> <small> | compass
    N S E W NE NW SE SW | <number> at on and & | <name> <number> | compass
    """
)
SHORT_FORMS = contexts(
    """
    hrs | * | * | hours
    hr | per an one | * | hour
    yrs | * | * | years
    mins | * | * | minutes
    secs | * | * | seconds
    pts | * | * | points
    tsp | * | * | teaspoon
    tbsp Tbsp | * | * | tablespoon
    km cm mm kg mg ml mL lbs lb oz kWh kHz MHz GHz kph mph mpg | per a an one each every | * | one
    km cm mm kg mg ml mL lbs lb oz kWh kHz MHz GHz kph mph mpg | * | * | many
    A | the | train line team list side game | A
    no. No. | * | of | number
    Rd. Rd | * | <number> | Round
    Ps. Ps Pss. | * | <number> | Psalm
    Sr. Sr | * | engineer manager director developer analyst vice producer editor | Senior
    AB | type blood : is | * | A B
    ea ea. | <number> | * | each
    Assoc. | * | prof professor dean director editor justice | Associate
    Pt. pt. | * | is was has denies presents reports states complains | patient
    Esc esc | * | * | escape
    Del Ins | the press hit | key <end> | delete
    Ctrl ctrl | * | * | control
    r | * | u you ur they we | are
    u | * | * | you
    """
)
"""Short forms without a dot; "one" and "many" are the names of a unit."""
