"""Words that are spelled alike and spoken differently, and names that the dictionary lacks."""

from collections.abc import Sequence
from typing import Any

from antiphon.text.contexts import contexts, pairs, reading_in, words

_CERTAIN = 5
_NUM_NEIGHBOURS = 4
_NOUNS_AND_VERBS = words(
    """
    abuse addict advocate affiliate alternate associate attribute compact compound compress conduct
    conflict console construct contest contract contrast convert convict coordinate decrease
    delegate desert digest discharge discount document duplicate escort estimate excuse exploit
    extract graduate implant import increase insert insult intrigue invite misuse moderate object
    permit perfect pervert present progress project protest rebel record refund refuse reject
    separate subject survey suspect torment transfer transplant transport upgrade
    """
)
# Readings: the dictionary's key of a part of speech, or in small letters a word that sounds alike.
_HOMOGRAPHS = contexts(
    """
    {both} | i you we they who to will would can could should must might cannot n't 'll please | * \
| VERB
    {both} | let_'s let_us let_me | a an the this that my your his its our their | VERB
    {both} | a an the this that my your his its our every no each some any another | * | NOUN
    {both} | <end> | the your a an my our this all it | VERB
    use | <end> | of | NOUN
    use | <end> i you we they who to will would can could should must may might n't 'll please | * \
| DEFAULT
    contract | muscle muscles lung lungs | * | VERB
    object | i we they | * | VERB
    produce | fresh organic local the of our sell sells grow grows buy some seasonal produces | \
<end> section aisle stand market department from is and in at | NOUN
    content | am is are was were be feel feels felt seem seems not quite very perfectly | <end> \
with to and that | DEFAULT
    read | to will can could should would must may might n't 'll please let_'s did ~did ~do ~does \
~can ~will | * | VB
    read | ~have ~has ~had ~having ~'ve | * | VBN
    read | 'd | ~before ~already ~twice ~once ~somewhere ~everything | VBN
    read | is are was were been being be widely well | * | VBN
    read | ~always ~usually ~often ~never i you we they | ~every ~daily ~always ~aloud ~often \
~usually | VB
    read | he she it | * | VBD
    read | ~he ~she ~aged ~was | * | VBD
    read | i we they you who | ~yesterday ~ago ~last | VBD
    lead | * | ~paint ~pipes ~gasoline ~soil ~metal ~metals | led
    lead | the a take takes took taking in has have had no sales tech early team | <end> in role \
singer actor actors story vocalist guitarist guitar single time by over of to at with on | lead
    lead | like heavy_as made_of | <end> | led
    lead | * | pipe pipes paint paints poisoning exposure contamination acid acid-free bullet \
bullets weight weights pencil solder shot apron ore mine mines dust levels content battery \
and_zinc and_mercury and_copper and_arsenic and_cadmium | led
    lead | made_of tons ton pounds molten toxic containing contains contain millimeter mercury_and \
arsenic_and zinc_and copper_and like_a pencil level_of levels_of | * | led
    live | broadcast streaming streamed stream streams air aired airing perform performed \
performing recorded going go goes went play played us watch watched seen | <end> at on from in \
tonight now today this | DEFAULT
    live | i you we they who to people | * | VERB
    live | * | music band broadcast stream concert show shows performance performances audience \
audiences coverage event events album wire wires bait animals tv television updates chat demo \
theater sports feed entertainment recording in-studio ammunition chickens lobster | DEFAULT
    lives | he she it who that one | * | VERB
    lives | my your our their nine many save saves saved saving lost of human innocent his her | * \
| NOUN
    lives | * | on in at with alone near here there | VERB
    tear | * | ~eye ~eyes ~cheek ~rolled ~fell | DEFAULT
    tear | to n't will would can might could wear_and muscle ligament rotator cuff meniscus acl \
retinal corneal | * | VERB
    tear | * | down up apart off out through into open in_the in_my in_his in_her in_a it them the \
| VERB
    tears | he she it wear_and muscle | * | VERB
    tears | * | down up apart off through | VERB
    wind | the a this strong high cold of | * | NOUN
    wind | to will and n't | up down it the through around your | VERB
    wind | * | up down the your it | VERB
    winds | road river trail path street clock it | * | VERB
    wound | was were is been being | * | VBD
    wound | * | up around down through | VBD
    bow | took_a take_a takes_a taking_a take_your the_ship's the_boat's ship's | * | VERB
    bow | * | to down before out ~ship ~boat ~vessel ~stern ~yacht | VERB
    bow | ~stern_and | * | VERB
    bows | he she they | * | VERB
    minute | * | amount amounts detail details quantity quantities trace traces difference \
differences particles particle fraction crack cracks changes variations | ADJ
    bass | sea largemouth smallmouth striped caught catch catching grilled black white spotted \
~fish ~caught ~lake ~river ~dinner ~grilled | * | DEFAULT
    bass | * | fishing boat fillet fillets lake tournament pro_shops ~lake ~river | DEFAULT
    bass | * | * | base
    close | to will would can could must n't 'll let_'s please | the your my our his her it up \
down at for on this that out <end> <number> | VERB
    close | <end> | the your my our his her this that all | VERB
    close | i we they you who | early late at on for <end> <number> | VERB
    close | door doors store stores shop shops polls markets offices banks schools | early late at \
on for <end> <number> | VERB
    close | too very so as be are is was were stay get got getting come came | * | DEFAULT
    dove | he she they i we who then dove it | into in under off down to for from | VERB
    resume | send sends sent attach attached submit upload submitted | * | resumay
    resume | your my his her their our updated attached current a the | <end> and by to for is was \
in with of on | resumay
    moped | he she i we they | * | VERB
    sow | the a sow | and_her <end> with in | NOUN
    reading | * | pennsylvania berkshire station england | redding
    des | * | moines plaines | deh
    nice | in from near to visited | france | niece
    polish | nail shoe floor silver to furniture and | * | pahlish
    number | getting feel feels felt | <end> | nummer
    invalid | an the | was is were who <end> | NOUN
    invalid | an the | * | DEFAULT
    """,
    both=_NOUNS_AND_VERBS,
)
# Phonemes as the American dictionary has them.
_NAMES = pairs(
    """
    siobhan=ʃəvˈɔn, niamh=nˈiv, saoirse=sˈɪɹʃə, sinead=ʃənˈAd, sinéad=ʃənˈAd, aoife=ˈifə,
    caoimhe=kˈivə, eoin=ˈOən, ciaran=kˈɪɹən, maeve=mˈAv, sean=ʃˈɔn, seán=ʃˈɔn, nguyen=wˈɪn,
    joaquin=wɑkˈin, xi=ʃˈi, josé=hOzˈA, jose=hOzˈA, jorge=hˈɔɹhA, juan=wˈɑn, julio=hˈuliˌO,
    javier=hˌɑviˈɛɹ, guillermo=ɡiˈɛɹmO, jesús=hAsˈus, alejandro=ˌɑləhˈɑndɹO, joaquín=wɑkˈin,
    xiao=ʃˈW, zhang=ʤˈɑŋ, qing=ʧˈɪŋ, beyoncé=biˈɑnsˌA, beyonce=biˈɑnsˌA, chloe=klˈOi, chloé=klˈOi,
    zoe=zˈOi, zoë=zˈOi, xavier=zˈAvjəɹ, hermione=həɹmˈIəni, goethe=ɡˈɜɹTə, porsche=pˈɔɹʃə,
    hyundai=hˈʌndA, huawei=wˈɑwˌA, xiaomi=ʃˈWmi, nike=nˈIki, hermès=ɛɹmˈɛz, givenchy=ʒivɑnʃˈi,
    dvořák=dvˈɔɹʒæk, chopin=ʃˈOpæn, gogh=ɡˈO, cruz=kɹˈuz, ortiz=ɔɹtˈiz, noël=nOˈɛl, ocasio=OkˈɑsiˌO,
    mbappé=əmbɑpˈA, djokovic=ʤˈOkəvɪʧ, federer=fˈɛdəɹəɹ, nadal=nədˈɑl, buttigieg=bˈuTəʤɪʤ,
    macron=məkɹˈOn, scholz=ʃˈOlts, thames=tˈɛmz, yosemite=jOsˈɛməTi, oaxaca=wəhˈɑkə,
    reykjavik=ɹˈAkjəvˌik, boise=bˈYsi, kyiv=kˈiv, qatar=kˈʌtəɹ, versailles=vɛɹsˈI, jolla=hˈYə,
    açaí=ˌɑsɑˈi, acai=ˌɑsɑˈi, gyro=jˈɪɹO, jalapeno=hˌɑləpˈAnjO, jalapeño=hˌɑləpˈAnjO,
    jalapeños=hˌɑləpˈAnjOz, chipotle=ʧəpˈOtlA, gnocchi=njˈɑki, pho=fˈʌ, quinoa=kˈinwˌɑ,
    résumé=ɹˈɛzəmˌA, résumés=ɹˈɛzəmˌAz, resumay=ɹˈɛzəmˌA, pahlish=pˈɑlɪʃ, nummer=nˈʌməɹ, deh=də,
    plaines=plˈAnz, moines=mˈYn, mckay=məkˈI, favre=fˈɑɹv, tchaikovsky=ʧIkˈɔfski, sartre=sˈɑɹtɹə,
    camus=kæmˈu, björk=bjˈɔɹk, ikea=Ikˈiə, adele=ədˈɛl, rihanna=ɹiˈɑnə, shakira=ʃəkˈiɹə,
    leicester=lˈɛstəɹ, edinburgh=ˈɛdᵊnbəɹə, jakarta=ʤəkˈɑɹTə, nairobi=nIɹˈObi, hanoi=hænˈY,
    giovanni=ʤəvˈɑni, giuseppe=ʤəsˈɛpi, anaïs=ɑnɑˈis, renée=ɹənˈA, renee=ɹənˈA, andré=ˈɑndɹA,
    esmé=ˈɛzmA, zoey=zˈOi, imogen=ˈɪməʤən, kaitlyn=kˈAtlɪn, aaliyah=ɑlˈiə, muhammad=mʊhˈɑməd,
    mohammed=mOhˈɑməd, ahmed=ˈɑkmɛd, fatima=fˈɑTɪmə, aisha=Iˈiʃə, priya=pɹˈijə, raj=ɹˈɑʤ,
    yuki=jˈuki, hiroshi=hɪɹˈOʃi, wei=wˈA
    """
)


def respell(tokens: Sequence[Any], *, british: bool) -> None:
    """Mark the dictionary's tokens of homographs and names with their reading in this sentence."""
    texts = [token.text for token in tokens]
    for place, token in enumerate(tokens):
        low = token.text.lower()
        rows = _HOMOGRAPHS.get(low)
        reading = None
        if rows is not None:
            start = max(0, place - _NUM_NEIGHBOURS)
            after = texts[place + 1 : place + 1 + _NUM_NEIGHBOURS]
            reading = reading_in(rows, texts[start:place][::-1], after)
        if reading is not None and reading.isupper():
            token.tag = reading
        elif reading is not None and reading not in _NAMES and reading != low:
            token.alias = reading
        name = _NAMES.get(reading or low)
        if name is not None:
            token.phonemes = name.replace("O", "Q") if british else name
            token.rating = _CERTAIN
        if token.text == "'s" and place and tokens[place - 1].rating == _CERTAIN:
            tokens[place - 1].phonemes += "s" if tokens[place - 1].phonemes[-1] in "fkpt" else "z"
            token.phonemes = ""
