"""Names, and words that decide how an adjacent number or Roman numeral is read."""

from antiphon.text.contexts import pairs, words

STARTERS = words(
    """
    A After All Although An And Another Are As At Because Before But Can Could Did Do For He Her
    Here His How However I If In Is It Its Later Let Many Meanwhile Most My Next No Not Now On Our
    Please She Since So Some That The Their Then There These They This Those Was We What When Where
    While Who Why Will With Would Yes You Your
    """
)
"""Capitalized words that start a sentence, rather than a name, after an abbreviation."""
STATES = pairs(
    """
    AL=Alabama, AK=Alaska, AZ=Arizona, AR=Arkansas, CA=California, CO=Colorado, CT=Connecticut,
    DE=Delaware, FL=Florida, GA=Georgia, HI=Hawaii, ID=Idaho, IL=Illinois, IN=Indiana, IA=Iowa,
    KS=Kansas, KY=Kentucky, LA=Louisiana, ME=Maine, MD=Maryland, MA=Massachusetts, MI=Michigan,
    MN=Minnesota, MS=Mississippi, MO=Missouri, MT=Montana, NE=Nebraska, NV=Nevada, NJ=New Jersey,
    NH=New Hampshire, NM=New Mexico, NY=New York, NC=North Carolina, ND=North Dakota, OH=Ohio,
    OK=Oklahoma, OR=Oregon, PA=Pennsylvania, RI=Rhode Island, SC=South Carolina, SD=South Dakota,
    TN=Tennessee, TX=Texas, UT=Utah, VT=Vermont, VA=Virginia, WA=Washington, WV=West Virginia,
    WI=Wisconsin, WY=Wyoming, DC=D C
    """
)
PRESS_STATES = pairs(
    """
    Ark=Arkansas, Del=Delaware, Ga=Georgia, Ind=Indiana, Kan=Kansas, Ky=Kentucky, La=Louisiana,
    Md=Maryland, Me=Maine, Miss=Mississippi, Mo=Missouri, Mont=Montana, Neb=Nebraska, Ore=Oregon,
    Pa=Pennsylvania, Tex=Texas, Vt=Vermont, Wash=Washington, Wyo=Wyoming
    """
)
"""States as newspapers shorten them."""
COMPASS = pairs(
    """
    N=North, S=South, E=East, W=West, NE=Northeast, NW=Northwest, SE=Southeast, SW=Southwest
    """
)
PHONE_WORDS = words(
    """
    call called cell contact dial fax hotline landline mobile phone reach ring tel telephone text
    whatsapp
    """
)
VERSION_WORDS = words(
    """
    android bluetooth build chrome cuda debian django fedora firefox go gpt http ios java kernel
    linux llama macos nixos node rails php python pytorch release ruby rust ubuntu usb v ver version
    windows
    """
)
CARDINAL_NAMES = words(
    """
    act amendment apollo appendix art artemis article book bowl category ch chapter civilization
    class division episode factor fantasy figure gemini grade group gta level mark no opus p page
    part pp phase pt rambo rocky round saturn scene schedule section sonata stage step symphony
    table trek theorem tier title type unit vol volume war wars
    """
)
"""Words after which a Roman numeral is a cardinal."""
REGNAL_NAMES = words(
    """
    albert alexander alfonso baldwin benedict carl conrad harold ladislaus mehmed murad pedro rudolf
    selim sigismund stephen suleiman victor carlos catherine charles christian clement cleopatra
    constantine darius david edward elizabeth emmanuel felipe ferdinand francis frederick george
    gregory gustav haakon harald henry innocent ivan james john joseph julius justinian king leo
    leopold louis margaret margrethe mary napoleon nicholas olav otto paul peter philip pius pope
    ptolemy queen ramesses ramses richard robert thomas umberto urban wilhelm william xerxes
    """
)
CENTURY_WORDS = words("amendment centuries century dynasty olympiad olympics")
KEYS = pairs(
    """
    ctrl=control, control=control, alt=alt, cmd=command, shift=shift, option=option, opt=option,
    command=command, win=windows, meta=meta, super=super, fn=function, windows=windows, ⌘=command
    """
)
KEY_NAMES = pairs(
    """
    del=delete, esc=escape, ins=insert, pgup=page up, pgdn=page down, ret=return, bksp=backspace
    """
)
