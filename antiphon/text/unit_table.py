"""Spoken forms of units of measure, currencies and signs."""

from antiphon.text.contexts import counted, forms, pairs, words

CURRENCIES = forms(
    """
    $=dollar/dollars/cent/cents, €=euro/euros/cent/cents, £=pound/pounds/penny/pence, ¥=yen/yen//,
    ₹=rupee/rupees/paisa/paise, ₩=won/won//, ₽=ruble/rubles/kopeck/kopecks,
    ₺=lira/lira/kurush/kurush, ₪=shekel/shekels/agora/agorot, ₫=dong/dong//,
    ₴=hryvnia/hryvnias/kopeck/kopecks, ₱=peso/pesos/centavo/centavos, ₦=naira/naira/kobo/kobo,
    ฿=baht/baht/satang/satang, ₿=bitcoin/bitcoins//, ¢=cent/cents//
    """
)
"""Singular and plural of a currency and of its subunit, by sign; empty subunits are not spoken."""
CURRENCY_CODES = forms(
    """
    USD=U S dollar/U S dollars/cent/cents, EUR=euro/euros/cent/cents, GBP=pound/pounds/penny/pence,
    JPY=yen/yen//, INR=rupee/rupees/paisa/paise, KRW=won/won//, CNY=yuan/yuan//, RMB=yuan/yuan//,
    CHF=Swiss franc/Swiss francs/centime/centimes, CAD=Canadian dollar/Canadian dollars/cent/cents,
    AUD=Australian dollar/Australian dollars/cent/cents, NZD=New Zealand dollar/New Zealand
    dollars/cent/cents, SEK=Swedish krona/Swedish kronor//, NOK=Norwegian krone/Norwegian kroner//,
    DKK=Danish krone/Danish kroner//, PLN=zloty/zlotys//, MXN=Mexican peso/Mexican pesos//,
    BRL=real/reals//, BTC=bitcoin/bitcoins//, Rs=rupee/rupees/paisa/paise, kr=krone/kroner//,
    Kr=krone/kroner//
    """
)
REAL = ("real", "reals", "centavo", "centavos")
DOLLARS = pairs(
    """
    US=U S, C=Canadian, CA=Canadian, A=Australian, AU=Australian, NZ=New Zealand, HK=Hong Kong,
    S=Singapore, NT=New Taiwan
    """
)
"""Letters before a dollar sign."""
SCALES = pairs(
    """
    k=thousand, K=thousand, m=million, M=million, mn=million, mln=million, MM=million, mil=million,
    b=billion, B=billion, bn=billion, bln=billion, Bn=billion, t=trillion, T=trillion, tn=trillion,
    trn=trillion
    """
)
"""Letters that directly follow an amount of money."""
SCALE_WORDS = words("billion crore hundred lakh million thousand trillion")
UNITS = counted(
    """
    km=kilometer, m=meter, dm=decimeter, cm=centimeter, mm=millimeter, µm=micrometer, um=micrometer,
    nm=nanometer, mi=mile, yd=yard, c=cup, yds=yard, kg=kilogram, g=gram, mg=milligram,
    µg=microgram, mcg=microgram, ng=nanogram, lb=pound, lbs=pound, oz=ounce, t=ton, l=liter,
    L=liter, dl=deciliter, dL=deciliter, cl=centiliter, cL=centiliter, ml=milliliter, mL=milliliter,
    µl=microliter, µL=microliter, gal=gallon, qt=quart, qts=quart, gals=gallon, kgs=kilogram,
    kms=kilometer, tsps=teaspoon, tbsps=tablespoon, nt=night, nts=night, qtr=quarter,
    tbsp=tablespoon, Tbsp=tablespoon, tsp=teaspoon, ha=hectare, ac=acre, kb=kilobit, Kb=kilobit,
    Mb=megabit, Gb=gigabit, kB=kilobyte, KB=kilobyte, MB=megabyte, GB=gigabyte, TB=terabyte,
    PB=petabyte, KiB=kibibyte, MiB=mebibyte, GiB=gibibyte, TiB=tebibyte, px=pixel, W=watt,
    kW=kilowatt, KW=kilowatt, MW=megawatt, GW=gigawatt, TW=terawatt, mW=milliwatt, V=volt,
    kV=kilovolt, mV=millivolt, mA=milliamp, A=amp, J=joule, kJ=kilojoule, MJ=megajoule, cal=calorie,
    kcal=kilocalorie, Pa=pascal, kPa=kilopascal, hPa=hectopascal, MPa=megapascal, mbar=millibar,
    N=newton, kN=kilonewton, Nm=newton meter, dB=decibel, h=hour, hr=hour, hrs=hour, min=minute,
    mins=minute, s=second, sec=second, secs=second, ms=millisecond, ns=nanosecond, µs=microsecond,
    us=microsecond, yr=year, yrs=year, mo=month, mos=month, wk=week, wks=week, kWh=kilowatt hour,
    Wh=watt hour, MWh=megawatt hour, GWh=gigawatt hour, TWh=terawatt hour, Ah=amp hour, mAh=milliamp
    hour, lm=lumen, mol=mole, mmol=millimole, ly=light year, Ω=ohm, Ω=ohm, kΩ=kilohm, MP=megapixel,
    ct=carat, kt=knot, kts=knot, kn=knot, Ma=million years/million years, IU=I U/I U, mIU=M I U/M I
    U, rad=radian, cc=C C, sq mi=square mile, sq m=square meter, sq km=square kilometer, fl oz=fluid
    ounce, nmi=nautical mile, nautical mi=nautical mile, bbl=barrel, bbls=barrel, Hz=hertz/hertz,
    kHz=kilohertz/kilohertz, MHz=megahertz/megahertz, GHz=gigahertz/gigahertz,
    THz=terahertz/terahertz, K=kelvin/kelvin, pt=point, lx=lux/lux, ppm=parts per million/parts per
    million, doz=dozen/dozen, ppb=parts per billion/parts per billion, psi=P S I/P S I, dpi=D P I/D
    P I, ppi=P P I/P P I, rpm=R P M/R P M, RPM=R P M/R P M, bpm=beats per minute/beats per minute,
    BPM=beats per minute/beats per minute, bar=bar/bar, hp=horsepower/horsepower,
    HP=horsepower/horsepower, bps=basis point, fps=frames per second/frames per second,
    in=inch/inches, ft=foot/feet, F=degree Fahrenheit/degrees Fahrenheit, C=degree Celsius/degrees
    Celsius, BR=bedroom/bedroom, BA=bath/bath, BD=bed/bed, MPG=mile per gallon/miles per gallon,
    MPH=mile per hour/miles per hour, mph=mile per hour/miles per hour, mpg=mile per gallon/miles
    per gallon, kph=kilometer per hour/kilometers per hour, kmh=kilometer per hour/kilometers per
    hour, kbps=kilobit per second/kilobits per second, Mbps=megabit per second/megabits per second,
    Gbps=gigabit per second/gigabits per second, sqft=square foot/square feet, sq ft=square
    foot/square feet, sq in=square inch/square inches, cu ft=cubic foot/cubic feet
    """
)
"""Singular and plural by symbol."""
NOT_AFTER_SPACE = words("A ac bar ct in mo MP N pt t us")
"""Units that are words or names after a space."""
WITH_DOT = words(
    """
    c doz fl ft gal hr hrs in lb lbs mi min mins mo mos nt nts oz pt qt qts gals tsps tbsps sec secs
    sq tbsp tsp wk yd yds yr yrs
    """
)
"""Units that are written with a dot too."""
PER_WORDS = words(
    """
    day gallon head hour hr mile min minute mo month night person piece sec second share unit user
    week wk year yr
    """
)
"""Words before which a slash is read as "per", after an amount."""
PER_SHORT = pairs("mo=month, yr=year, wk=week, d=day, nt=night, pt=point, req=request, sh=share")
FRACTION_SIGNS = {
    sign: (int(above), int(below))
    for sign, (above, below) in forms(
        """
    ½=1/2, ¼=1/4, ¾=3/4, ⅓=1/3, ⅔=2/3, ⅕=1/5, ⅖=2/5, ⅗=3/5, ⅘=4/5, ⅙=1/6, ⅚=5/6, ⅛=1/8, ⅜=3/8,
    ⅝=5/8, ⅞=7/8, ⅐=1/7, ⅑=1/9, ⅒=1/10, ↉=0/3
    """
    ).items()
}
SIGN_WORDS = pairs(
    r"""
    ==equals, +=plus, −=minus, ×=times, ÷=divided by, ±=plus or minus, ∓=minus or plus, <=less than,
    >=greater than, ≤=less than or equal to, ≥=greater than or equal to, ≠=not equal to,
    ≈=approximately, ≅=approximately, ≡=is equivalent to, ∝=proportional to, ∞=infinity,
    √=square root of, ∑=sum of, ∫=integral of, ∂=partial, ∈=in, ∪=union, ∩=intersection, ∀=for all,
    ∃=there exists, →=to, ⇒=implies, ↔=to and from, &=and, @=at, %=percent, ‰=per mille, °=degrees,
    ²=squared, ³=cubed, §=section, ¶=paragraph, ©=copyright, ¢=cents, ~=about, ★=star, ⌘=command,
    #=hash, /=slash, \=backslash, ^=to the power of, ′=prime, ″=double prime
    """
)
"""Signs on their own."""
SIGN_PAIRS = pairs(
    """
    ->=to, §§=sections, ¶¶=paragraphs, =>=implies, >==greater than or equal to, <==less than or
    equal to, !==not equal to, ===equals, &&=and, <-=from
    """
)
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
SUBSCRIPTS = "₀₁₂₃₄₅₆₇₈₉"
