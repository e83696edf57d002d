"""Contexts that decide how numbers and short forms are read; rows as `contexts` describes."""

from antiphon.text.contexts import contexts, words
from antiphon.text.name_table import VERSION_WORDS
from antiphon.text.word_table import BOOK_NAMES, DAY_NAMES, MONTH_NAMES

_DAYS = frozenset(day.lower() for pair in DAY_NAMES.items() for day in pair)
_MONTHS = frozenset(name.lower() for name in MONTH_NAMES)
_DIGIT = words(
    """
    account acct agent badge booking call card case claim code combination confirmation cvv dial ein
    ext extension id invoice isbn key licence license number order otp passcode password permit
    phone pin plate policy postcode ref reference reg registration routing sku serial ssn text
    ticket tracking upc vat vin zip zipcode
    """
)
_YEAR = words(
    """
    after and autumn before between born by circa class copyright died during early established fall
    founded from in late mid of since spring summer through till to until winter year years fy
    """
)
_MEASURED = words(
    """
    ad adapter airing ammo angle angles bag bags battery batteries ban bar bars beam beams bed belt
    bike bill board boat bolt bolts bottle bottles bottom bowl box boxes bucket buckets break breaks
    bulb bulbs bullet bullets bus cable cables cake cakes can cans carton charger charging circuit
    class clip clock coat commute container containers cord countdown course cubes cup cups cutter
    dash deadline delay dish disk display dive drill drive drives drop engine fast fence field film
    final flight flights font gap gap gift glass guarantee gun hallway hard heel heels hike hole
    hose house hurdles inseam interview jar jars jog journey jug jump kettle kitchen knife ladder
    lamp laptop layer layers layover lead lease lecture lens limit line lot manual mark meeting
    mirror monitor monitors mortgage motor nail nails nap notice oil outlet oven pack package packs
    pan paint panel pause phone piece pieces pile pipe pipes pistol pitcher pizza plank plate plates
    pole pool pot pots power presentation promotion pull putt race radius record relay reservoir
    ride rifle rod roll roof room rope rotation round rounds row run runs sail sandwich screen
    screens screw screws seminar service session shift shot skillet sledge slice slices socket
    solution sofa speech speed sprint square squares stack stem strip strips stroll subwoofer supply
    suspension swim table tablet tablets tank term throw tile tiles timer tin touchdown tower trail
    train tree trees trip truck tub tube turn turkey tv video vial waist wait walk wall walls
    warranty wheel wheels window winds wire workout wrench zone cap
    """
)
_FOODS = words(
    """
    berries blueberries cherries cherry grape mushrooms raspberries strawberries tomatoes almond
    apple baking basil black brown butter buttermilk canola chili chives chopped cider cinnamon
    coarse cocoa coconut cold corn cornmeal cornstarch cream cumin curry dijon dried each extra fine
    finely fish flour fresh garlic ginger grated ground heavy hoisin honey hot ice jam juice ketchup
    kosher lemon light lime maple mayo mayonnaise melted milk mince minced miso mirin molasses
    mustard nutmeg of oil olive onion orange oregano paprika parsley peanut pepper powdered red rice
    salt sea sesame sherry smoked sour soy sugar syrup tahini thyme tomato unsalted vanilla
    vegetable vinegar water white wine worcestershire yeast yogurt
    """
)
_DETERMINER = words("a an another each every her his its my our that the their this your")
NOT_COUNTED = words(
    """
    a again already also an and are as at back because before between but by did each every extra
    for from had has he i if in into is it last later left less lost more next now off on or out
    over owed paid per raised she so spent than that the they to today total under up was we were
    when which while who will with yesterday yet you
    """
)
"""Words that follow an amount without being what it counts."""

# By the number of digits; 0: a leading zero, h: whole hundreds.
NUMBER_STYLES = contexts(
    """
    0 4 4h 5 5h 6 6h 7 7h 8 8h 9 9h | {digit} ending_in last_four text_to | * | digits
    707 717 727 737 747 757 767 777 787 | the a an | max freighter jet jets dreamliner | pairs
    401 403 457 529 | * | plan plans account accounts | pairs
    8080 8081 8443 | * | * | pairs
    404 | * | people {measured} pages items miles days | count
    404 | * | * | pairs
    401 402 403 405 408 409 410 413 415 418 422 429 451 501 502 503 504 | http got returned \
returns return throws threw status else gave | * | pairs
    401 402 403 405 408 409 410 413 415 418 422 429 451 501 502 503 504 | * | bad error errors \
forbidden timeout timeouts gateway response responses status unauthorized | pairs
    .3 | batting bat hit hits hitting ops slugging obp average of at | <end> with against and in \
on since batting | pairs
    .3 | ~games ~record | <end> | pairs
    .2 .3 | a his her the my caliber | <end> in and from caliber cal special magnum rifle pistol \
revolver round bullet handgun long | pairs
    3 3h | chmod | * | digits
    3 3h 4 4h | ext x | * | digits
    3 3h | call code cvv dial extension otp passcode pin text ending_in | * | digits
    5 6 | '_to "_to ”_to ~text ~texts ~texting ~reply ~sms | * | digits
    5 | live_in lives_in living_in moved_to | <end> | digits
    5 | , | <name> | digits
    3 4 4h | * | <street> | pairs
    4 4h | box build port | * | pairs
    3 | build h port b_. r_. <hyphen> | * | pairs
    911 | * | call calls caller callers dispatcher dispatchers operator operators tape tapes | \
digits
    911 | porsche the a | * | pairs
    911 | * | people {measured} items miles days | count
    911 | * | * | digits
    5 | d_c n_y n_j n_m n_h n_c s_c n_d s_d r_i | * | digits
    4 | <acronym> | * | acronym
    4 | * | form forms | pairs
    3 4 | acela amtrak cessna delta emirates eurostar jetblue klm lufthansa qantas ryanair united \
airbus apartment apt area boeing building bus cabin channel cr dl error errors exit fm flight \
flights flt form highway http hwy interstate model rd rm room route rte sr status ste suite \
train ua unit wn ~flight | * | pairs
    model | airbus boeing fig figure model table world | * | pairs
    10-4 10-20 | a the | <end> from on | pairs
    10-4 10-20 | copy roger that's | * | pairs
    10-4 10-20 | <end> | <end> good buddy copy over roger | pairs
    1-2 | * | punch | pairs
    3-0 4-0 5-0 6-0 7-0 8-0 9-0 | big | * | pairs
    24-7 | open available running support working work us | * | pairs
    code | {digit} no nos docket | * | digits
    version | {programs} | * | version
    version | go | <end> | version
    version | ~upgrade ~upgraded ~upgrading ~downgrade ~version ~versions ~release ~branch ~lts | \
<end> <small> | version
    version | * | release releases branch lts beta rc | version
    3 4 | * | <section> | pairs
    5 5h 6 6h 7 8 9 | airbus apartment boeing flight model room route suite unit <state> | * | \
digits
    4 4h | * | {not_nouns} | year
    4 4h | * | people men women children feet percent dollars <plural> | count
    4 4h | {year} year_was year_is | * | year
    """,
    digit=_DIGIT,
    programs=VERSION_WORDS - {"go"},
    measured=_MEASURED,
    year=_YEAR,
    not_nouns=words(
        """
    across always as besides brings elections finals grads levels olympics playoffs prices results
    standards taxes vibes does has his is its perhaps plus sees this thus towards us versus was
    whereas yes
    """
    ),
)
# Two numbers with a slash (/) or a colon (:) between.
PAIR_STYLES = contexts(
    """
    / | last_day first_day ~date ~deadline ~birthday ~anniversary | * | date
    / | * | time meter signature | apart
    / | {programs} | * | apart
    / | made posted reached england india australia pakistan zealand were | at for after in \
off overnight declared | for
    / | * | star stars point points | out of
    / | attempt attempts average chapter day episode gave gets got grade graded level page part \
pain question quiz rate rated rating review score scored scores scoring step stage test it_a him_a \
her_a week_day | * | out of
    / | bp pressure pressures mmhg temps | * | over
    / | after before beginning begins between born by closes date dated deadline due effect ending \
ends expires from join on opens opening returns since started starting starts through thru till \
until us week weeks night shipped arrived payable ordered delivered sent received posted paid \
updated {days} i'm_out be_out am_out off away closed vacation ~moved ~rescheduled ~postponed as \
set_for scheduled_for slated_for planned_for booked_for moved_to pushed_to | * | date
    / | * | @ mtg meeting game call party memo appt appointment release | date
    / | * | a an per | shillings
    / | concert's game's show's party's meeting's wedding's exam's test's it's due | at | date
    / | * | on | out of
    : | {books} | * | verse
    : | ratio ratio_of odds odds_of scale scale_of | * | to
    : | ~dep ~depo ~tr ~transcript | * | verse
    : | * | aspect display mix odds ratio ratios scale screen split video | to
    """,
    books=BOOK_NAMES,
    days=_DAYS,
    programs=VERSION_WORDS - {"v", "http"},
)
AMOUNTS = contexts(
    """
    unit | every | * | many
    $ unit | * | {not_counted} <end> | many
    $ unit | {determiner} x | <small> <name> | one
    $ | * | est estimate bill bills note notes coin coins question fee fine valuation deal lunch \
dinner ticket gift budget loan grant bonus deposit penalty settlement budgets donation | one
    unit | * | {measured} | one
    size | * | by deep display diameter high laptop long monitor nails pipe pizza record screen \
tablet tall thick tv vinyl waist wheels wide x | inches
    inch | the this that | is was has costs weighs fits | one
    inch | * | {not_counted} <end> and away back below by deep diameter high long of on tall thick \
wide x apart square flat short shy longer shorter taller wider deeper thicker too ~) | many
    inch | * | <small> <name> <acronym> <number> tv | one
    prime | * | winner equalizer equaliser goal header strike penalty half break | minute
    prime | + ~half ~halftime | * | minutes
    """,
    not_counted=NOT_COUNTED,
    determiner=_DETERMINER,
    measured=_MEASURED,
)
"""Whether the currency or the unit of an amount is spoken once, as an attribute of a noun."""
LETTERS = contexts(
    """
    capital | airbus aisle apartment apt area bay block boeing building bus cabin channel dock \
door exit figure flight form gate hall highway lane level lot model pier platform room route row \
rows seat seats gates section step suite table terminal track train unit zone | * | name
    F | degrees degree | * | scale
    C | temp temperature reached oven fever - \u2013 | * | scale
    F | to at of oven was is around reached hit about between preheated over and from fever temp \
temperature - \u2013 | * | scale
    F | * | oven outside today overnight tonight | scale
    K | temperature at to below above near ~boils ~freezes ~melts ~cooled . | * | scale
    c | * | <small> | cup
    """
)
"""Letters behind a number that are names, or short forms of units."""
SECONDS = contexts(
    """
    s | in then after within every for about around under over below only just another than from \
to by at last next first took take takes taking taken lasts lasted wait waits waited hold rest \
sleep sleeps pause pauses ran runs add plus minus between is was approximately nearly almost \
exactly a min mins minute minutes hour hours timeout delay per each = : < > ~ | * | seconds
    s | * | delay timeout interval window break later ago remaining left clip video before after \
elapsed faster slower long pause countdown timer limit rest hold plank sprint latency gap | \
seconds
    decade | and early her his its late mid my our the their your | * | decade
    decade | * | to and or in at for of on before after is | seconds
    decade | * | <small> | named
    """
)
"""Whether "s" behind a number stands for seconds or for a plural."""
MILITARY = contexts(
    "0 | the at by until till from to before after around between since it it's | * | time"
)
DAYS = contexts(
    """
    Mon Sat Sun Wed | on every next last this by until and & closed open from to thru {days} | * | \
day
    Mon Sat Sun Wed | * | {days} {months} <number> | day
    Mon Sat Sun Wed | m_. am pm service game close closes open opens | * | day
    Mon Sat Wed | <small> | <end> <small> | day
    """,
    days=_DAYS,
    months=_MONTHS,
)
"""Short names of days that are words too."""
SHORT_FORMS = contexts(
    """
    hr | per an one | * | hour
    mo mo. | 1 a one | * | one
    mo. wk. yr. qtr. gal. qt. | last this next per a each every | * | one
    pts pts. | <number> | had were showed received who enrolled aged underwent | patients
    pts pts. | of saw treated admitted ~saw ~treated | with w on in today | patients
    pt pt. | 1 ½ | {foods} | pint
    pt pt. | <number> | font type lead favorite drop gain swing underdog | point
    pt. | - highest lowest high low main key turning starting | * | point
    pt pt. | <number> | * | points
    T=tablespoon T.=tablespoon t=teaspoon t.=teaspoon | 1 ½ ¼ ¾ ~/ | {foods} |
    c | 1 ½ ¼ ¾ ⅓ ⅔ ~/ | {foods} | cup
    pt=pints pt.=pints T=tablespoons T.=tablespoons t=teaspoons t.=teaspoons c=cups | <number> | \
{foods} |
    tab.=tablet cap.=capsule | 1 | * |
    st=street ave=avenue fl=floor fl.=floor c.=century | st nd rd th | * |
    agg. | * | <number> : score | aggregate
    ext. Ext. | * | is was : | extension
    req. | * | for | request
    min=minutes hr=hours sec=seconds | more few | * |
    Sq. sq. | * | footage feet foot yards miles meters inches | square
    Stat. | * | § | Statutes
    km cm mm kg mg ml mL lbs lb oz kWh kHz MHz GHz kph mph mpg | per a an one each every | * | one
    A | the | train line team list side game | A
    A | press hold tap hit click pressing button | * | A
    L=left R=right | turn bear keep go then | on at onto <end> |
    Rd. Rd | county co_. ranch farm ~county | * | Road
    Co. | * | rd road route hwy | County
    Sr. Sr | * | engineer manager director developer analyst vice producer editor vp eng exec \
account software product project program data marketing sales staff designer dev advisor attorney \
associate consultant counsel partner scientist researcher research technician nurse class living \
citizen citizens prom night dir mgr | Senior
    Eng. | sr_. sr senior software dept | * | Engineer
    AB | type blood : is | * | A B
    AA | * | battery batteries batts cell cells size | double A
    AAA | * | battery batteries batts cell cells size batt | triple A
    RT | mi miles km trip . | * | round trip
    pct pct. | * | pt pts point points | percentage
    BID | mg mcg ml po tablet tablets daily . | * | B I D
    x X | <small> | ~days ~weeks ~wks ~wk ~months ~mos ~hours ~hrs | for
    x X | . tid bid qid daily day mg ml tablets po | ~days ~wks ~weeks ~months ~d | for
    Dir. | asst_. assoc_. exec_. dep_. assistant associate executive | * | Director
    Assoc. | * | prof professor dean director editor justice | Associate
    Pt. pt. | * | is was has had denies presents reports states complains to will seen | patient
    Del Ins | the press hit | key <end> | delete
    r | * | u you ur they we | are
    c | * | u_at u_in u_on u_there u_soon u_later u_tomorrow u_tonight u_@ u_then | see
    in. | an | or | inch
    N. S. E. W. | miles mi km blocks go head drive turn walk . {roads} | of on to from for at , \
toward until exit <end> | compass
    def. d. | <name> | <name> | defeated
    est. est Est. | <number> dollars | * | estimate
    est. est Est. | * | $ ~ € £ <small> | estimated
    Cat. cat. | * | no number | Catalog
    ch. | <number> | in on of and | channels
    Ex. | * | a b c d e f g h j k l m | Exhibit
    Arr=arrives arr=arrives Dep=departs dep=departs Dpt=departs dpt=departs Wt=weight wt=weight \
Ht=height ht=height | * | <number> : |
    no. No. | * | : | number
    no. No. | {digit} | is was | number
    pp. | <number> | and due long of plus total | pages
    vol. | <number> | <end> for of in and set per | volumes
    def.=defendant WHO=W_H_O | the | * |
    OR | the | <end> nurse room at for | O R
    div. Div. | * | yield yields per rate of $ : | dividend
    resp. Resp. | * | <number> rate : | respiration
    min.=minute sec.=second hr.=hour | st nd rd th | * |
    Max. | * | <small> | Maximum
    bus. | * | day days hours hrs | business
    Ch. Ch | on watch watching | * | Channel
    Ch. Ch | * | ~news ~weather ~at | Channel
    Rev. rev. | * | $ grew rose fell was is of up down growth beat missed per for | revenue
    op. Op. | * | margin margins income profit profits cash expenses ex | operating
    req. | * | <number> a an at the | requires
    Asst.=Assistant Lv.=leave lv.=leave Ar.=arrive | * | <name> |
    Sz. sz. Sz sz | * | <number> <name> <small> | size
    Ofc Ofc. | * | : hrs hours | Office
    Reg. reg. | * | no no. number | Registration
    Reg. reg. | * | price hours $ season hrs | regular
    cts. | <number> | of | counts
    cts. | ~guilty ~convicted ~charged ~indicted ~on | * | counts
    t t. | <number> | <end> | tons
    ct ct. | count - <number> | diamond diamonds ring gold tw white yellow ruby sapphire | carat
    ct. ct | <number> - | * | count
    Rm rm Rm. | * | w with for | room
    qn Qn | <number> two w | bed beds | queen
    Acct. | * | mgr manager exec executive rep no | Account
    batt. batts. | aaa aa <number> | * | batteries
    blk. | a one 1 per | * | block
    blk. wht. | * | <end> leather cotton finish | black
    mo=many mo.=many tabs.=tablets tab.=tablets caps.=capsules cap.=capsules pkt.=packets \
pkts.=packets sh.=shares shs.=shares req=requests reqs=requests req.=requests reqs.=requests \
adv.=advance cts.=cents cts=cents reb=rebounds rebs=rebounds reb.=rebounds ast=assists \
asts=assists ast.=assists stl=steals | <number> | * |
    HRs | <number> two three | * | home runs
    bal. Bal. | * | is was of : due | balance
    addr addr. | my your the ur | * | address
    col. | ~line ~row <end> , | <number> | column
    no.=number No.=number Dep.=Deposition wk.=one wk=one Proc.=Proceedings Cor.=Corner cor.=Corner \
| * | of |
    appx. App. app. | see in of | <name> <number> a b c d | appendix
    Rd.=Round Rd=Round Ps.=Psalm Ps=Psalm Pss.=Psalm Trk.=Track trk.=Track long.=longitude \
Long.=longitude | * | <number> |
    Ret. ret. | , | <end> | Retired
    Ed. | board_of dept_of department_of of dept._of | * | Education
    ex. Ex. | ~homework ~hw ~ch | <number> | exercise
    Exs. exs. Exhs. | * | <name> <number> a b c d | Exhibits
    F.=Fahrenheit F=Fahrenheit C.=Celsius C=Celsius | degrees degree deg | * |
    d d. | <number> | <end> | days
    x X | <number> | $ € £ | times
    NE NW SE SW | * | of at side corner wind winds | compass
    NE NW SW | onto on at to from and & | <number> | compass
    N S E W NE NW SE SW | wind winds km mi miles kilometers | of <number> | compass
    N. S. E. W. N S E W NE NW SE SW | ave avenue st street blvd rd road ave_. st_. blvd_. rd_. | * \
| compass
    N S E W | ~ca {roads} | <end> <small> | compass
    N S E W NE NW SE SW | <number> at on and & | <name> <number> | compass
    x | , | <number> | extension
    x | dial call at phone ext or reach office <number> | <number> | extension
    pts=points pts.=points km=many cm=many mm=many kg=many mg=many ml=many mL=many lbs=many \
lb=many oz=many kWh=many kHz=many MHz=many GHz=many kph=many mph=many mpg=many pg=page pg.=page \
pct=percent pct.=percent pgs.=pages pgs=pages blks=blocks blks.=blocks | * | * |
    """,
    digit=_DIGIT,
    foods=_FOODS,
    roads=words("~i ~us ~route ~rt ~rte ~hwy ~highway ~interstate ~sr"),
)
"""Short forms without a dot; "one" and "many" are the names of a unit."""
