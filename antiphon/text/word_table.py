"""Abbreviations, names of days and months, and words that decide how a number is read."""

from antiphon.text.contexts import either_case, pairs, words

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September"),
    *("October", "November", "December"),
)
MONTH_NAMES = {
    **{short: month for month in MONTHS for short in (month, month[:3])},
    **{short.upper(): month for month in MONTHS for short in (month, month[:3])},
    **{"Sept": "September", "SEPT": "September"},
}
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
DAY_NAMES = {day[:3]: day for day in DAYS} | pairs(
    "Tues=Tuesday, Weds=Wednesday, Thur=Thursday, Thurs=Thursday"
)
SHORT_DAYS = pairs(
    "M=Monday, Tu=Tuesday, W=Wednesday, Th=Thursday, F=Friday, Sa=Saturday, Su=Sunday"
)
ORDINAL_ENDINGS = words("st nd rd th")
WORDS_TOO = words("Dec Jan Jun Mar May Mon Sat Sun Wed")
"""Short forms that are words or names too."""
TITLES = pairs(
    """
    Mr=Mister, Mrs=Missus, Ms=Miz, Mx=Mix, Prof=Professor, Gen=General, Gov=Governor, Sen=Senator,
    Rep=Representative, Capt=Captain, Lt=Lieutenant, Col=Colonel, Sgt=Sergeant, Cmdr=Commander,
    Rev=Reverend, Hon=Honorable, Pres=President, Supt=Superintendent, Cpl=Corporal, Maj=Major,
    Adm=Admiral, Fr=Father, Msgr=Monsignor, Dr=Doctor, Mt=Mount, Ft=Fort, Pvt=Private,
    Det=Detective, Insp=Inspector, Atty=Attorney, Brig=Brigadier, Ens=Ensign, Messrs=Messieurs,
    Mme=Madame, Mlle=Mademoiselle, Drs=Doctors, Profs=Professors, Sens=Senators,
    Reps=Representatives, Sr=Sister, Ofc=Officer, Pfc=Private first class, Cpt=Captain,
    Dir=Director, Br=Brother, Amb=Ambassador, Sec=Secretary, Sgts=Sergeants, Cdr=Commander,
    Lieut=Lieutenant
    """
)
"""Titles before a name, with or without a dot; `BARE_TITLES` are those without one."""
BARE_TITLES = words("Capt Col Dr Gov Lt Mr Mrs Ms Mt Prof Sgt")
PLACES = pairs(
    """
    St=Street, Dr=Drive, Ave=Avenue, Av=Avenue, Blvd=Boulevard, Rd=Road, Ln=Lane, Hwy=Highway,
    Pkwy=Parkway, Pl=Place, Ct=Court, Sq=Square, Ter=Terrace, Hts=Heights, Pk=Park, Trl=Trail,
    Plz=Plaza, Xing=Crossing, Cyn=Canyon, Spgs=Springs, Jct=Junction, Expy=Expressway, Rte=Route,
    Tpke=Turnpike, Fwy=Freeway, Cres=Crescent, Aly=Alley
    """
)
"""Abbreviations after a name."""
STREETS = frozenset((*PLACES, *PLACES.values())) - words("Park Highway Route") | words("Way Row")
"""Words that end the name of a street."""
CERTAIN_PLACES = words("Ave Blvd Expy Fwy Hwy Pkwy Rd Rte Tpke")
"""Abbreviations of places that have no other meaning."""
SAINTS = words(
    """
    Barnabas Croix Denis Elmo Germain Ignatius Jude Lawrence Simon Stephen Vincent Albans Andrew
    Andrews Ann Anne Anthony Augustine Bernard Charles Clair Cloud Francis George Helens Ives James
    John Joseph Kitts Louis Lucia Lucie Luke Mark Martin Mary Matthew Michael Moritz Nicholas
    Pancras Patrick Paul Peter Petersburg Thomas Tropez
    """
)
ABBREVIATIONS = either_case(
    """
    agcy=agency, amts=amounts, atty=attorney, attys=attorneys, avail=available, btwn=between,
    coord=coordinator, deg=degrees, depts=departments, diam=diameter, equip=equipment,
    est'd=established, rec'd=received, req'd=required, cont'd=continued, freq=frequency, flr=floor,
    hrly=hourly, hwys=highways, illus=illustrated, ins=insurance, inst=institute, jct=junction,
    lic=license, maint=maintenance, med=medium, mfr=manufacturer, mktg=marketing, mtg=meeting,
    mtgs=meetings, mtn=mountain, pkgs=packages, pop=population, pref=preferred, prelim=preliminary,
    prev=previous, recd=received, ref=reference, rev=revised, sched=schedule, subj=subject,
    supp=supplement, treas=treasurer, usu=usually, wkly=weekly, gtd=guaranteed, incl=including,
    lg=large, sm=small, elev=elevation, addr=address, intro=introduction, cont=continued,
    dep=departs, arr=arrives, blt=built, apts=apartments, mfg=manufacturing, std=standard,
    resp=respectively, approx=approximately, vs=versus, etc=et cetera, viz=namely, dept=department,
    asst=assistant, govt=government, intl=international, natl=national, bldg=building,
    apt=apartment, rm=room, cf=compare, incl=including, excl=excluding, misc=miscellaneous,
    avg=average, temp=temperature, tel=telephone, attn=attention, qty=quantity, amt=amount,
    dist=distance, eds=editors, hwy=highway, blvd=boulevard, ave=avenue, mgr=manager,
    mgmt=management, prob=probably, esp=especially, orig=originally, ca=circa, min=minimum,
    acct=account, appt=appointment, pkg=package, yr=year, yrs=years, hr=hour, hrs=hours, sec=second,
    secs=seconds, mins=minutes, lb=pound, lbs=pounds, oz=ounces, ft=feet, tbsp=tablespoon,
    tsp=teaspoon, qt=quart, par=paragraph, para=paragraph, wt=weight, ht=height, ref'd=referred,
    exh=exhibit, rgds=regards, lvs=leaves, ea=each, univ=university, vol=volume, vols=volumes,
    util=utilities, cust=customer, exec=executive, elem=elementary, mkt=market, conf=conference,
    admin=administration, comm=committee, hist=history, poss=possible, stn=station, dbl=double,
    chg=change, bldgs=buildings, secy=secretary, mfrs=manufacturers, accts=accounts,
    appts=appointments, certif=certificate, req=required, nbr=number, flt=flight,
    transp=transportation, w'house=warehouse, dkt=docket
    """
) | pairs(
    """
    ed=edition, al=al, mo=month, gal=gallon, Blk=Block, Wm=William, Chas=Charles, Geo=George,
    Jas=James, Thos=Thomas, Robt=Robert, Benj=Benjamin, Edw=Edward, Twp=Township, Cty=County,
    Sta=Station, Cir=Circuit, Hosp=Hospital, Ctr=Center, Div=Division, Inc=Incorporated,
    Corp=Corporation, Ltd=Limited, Co=Company, Bros=Brothers, Univ=University, Assn=Association,
    Assoc=Association, assoc=associate, Jr=Junior, Sr=Senior, Esq=Esquire, Ste=Suite, Fl=Floor,
    Flr=Floor, max=maximum, Max=Max, VS=versus, Rds=Roads, Sts=Streets, Aves=Avenues, Mts=Mountains,
    Tech=Tech, Ala=Alabama, Ariz=Arizona, Calif=California, Colo=Colorado, Conn=Connecticut,
    Fla=Florida, Ill=Illinois, Mich=Michigan, Minn=Minnesota, Okla=Oklahoma, Penn=Pennsylvania,
    Tenn=Tennessee, Wis=Wisconsin, Va=Virginia, Ph=P H, Amend=Amendment, Cav=Cavalry, Regt=Regiment,
    Inf=Infantry, Mass=Massachusetts, Kans=Kansas, Nev=Nevada, Hwys=Highways, Bd=Board,
    refs=references, Const=Constitution, sel=selection, Compl=Complaint, Educ=Education,
    Comm'n=Commission, Ass'n=Association, Comm'r=Commissioner, Cnty=County, Indus=Industries,
    Constr=Construction, Elec=Electric, Auth=Authority, Prods=Products, Servs=Services,
    chk=checking, sav=savings
    """
)
"""Abbreviations with a dot."""
BARE_ABBREVIATIONS = words(
    """
    Wm Chas Robt Benj Rgds rgds btwn Btwn mtg Mtg mtgs Mtgs mktg Mktg sched avail Avail rec'd Rec'd
    req'd Req'd cont'd mfr recd apts Apts acct approx appt Apt Assn Attn Bldg bldg Dept dept etc
    Govt govt Intl Ltd Mfg mgmt Mgr mgr Qty qty VS Vs vs
    """
)
"""Abbreviations with the same meaning without a dot."""
BEFORE_NAMES = words(
    """
    Wm Chas Geo Jas Thos Robt Benj Edw btwn Dep dep Arr arr Approx approx Attn ca Cf cf Ph VS Vs vs
    Incl incl Excl excl Esp esp
    """
)
"""Abbreviations that never end a sentence."""
BEFORE_NUMBERS = either_case(
    """
    rm=room, sc=scene, ste=suite, bldg=building, ex=example, no=number, nos=numbers, fig=figure,
    figs=figures, p=page, pp=pages, pg=page, pgs=pages, vol=volume, vols=volumes, ch=chapter,
    chs=chapters, sec=section, sect=section, art=article, par=paragraph, eq=equation, eqs=equations,
    ext=extension, para=paragraph, pt=part, ver=version, v=version, est=established, ca=circa,
    apt=apartment, min=minimum, max=maximum, op=opus, ep=episode, nr=number, lv=level, lvl=level,
    chap=chapter, chaps=chapters, cl=clause, app=appendix, tab=table, bk=book, wk=week, wks=weeks,
    yr=year, gr=grade, cat=category, rt=route, exh=exhibit, iss=issue, prop=proposition, pl=plate,
    div=division, dist=district, amend=amendment, tit=title, prob=problem, res=resolution,
    ques=question, flt=flight, plat=platform, flt=flight, mag=magnitude, trk=track
    """
) | pairs(
    """
    l=line, ll=lines, n=note, nn=notes, Gen=Generation, Rev=Revision, c=circa, b=born, d=died,
    NO=number, Ser=Series, Ex=Example, Lat=Latitude
    """
)
"""Abbreviations with a dot before a number; elsewhere they are words."""
BARE_BEFORE_NUMBERS = words(
    "Apt apt Bldg Flt flt Plat Trk trk Rm rm Ste Ext ext Fig fig lvl Nr nr pp Vol vol"
)
NUMBERED_WITH_LETTERS = words("App Apt apt Art Ch Ex Exh Fig fig Pt Rm Vol vol Vols vols")
DOTTED = pairs(
    """
    e.g.=for example, i.e.=that is, a.k.a.=also known as, w.r.t.=with respect to, c.f.=compare,
    n.b.=note well, E.g.=For example, I.e.=That is, eg.=for example, ie.=that is, y.o.=year old
    """
)
"""Words that never end a sentence."""
PHRASES = pairs(
    """
    Fed. R. Civ. P.=Federal Rule of Civil Procedure, Fed. R. Evid.=Federal Rule of Evidence, Fed. R.
    Crim. P.=Federal Rule of Criminal Procedure, Fed. R. App. P.=Federal Rule of Appellate
    Procedure, F. Supp.=F Supp, S. Ct.=Supreme Court, L. Ed.=Lawyers' Edition, Cal. App.=Cal App,
    Fed. Reg.=Federal Register, So. 2d=Southern second, op. cit.=op cit
    """
)
"""Abbreviations of several words."""
SLASHED = pairs(
    """
    and/or=and or, f/=F, f/t=full time, p/t=part time, w/in=within, r/t=round trip, w/o=without,
    w/=with, b/c=because, c/o=care of, n/a=N A, h/o=history of, s/p=status post, r/o=rule out,
    f/u=follow up, d/t=due to, k/d=K D, a/c=A C, i/o=I O, m/m=month over month, y/y=year over year,
    y/o=year old, p/e=P E, tu/th=Tuesday and Thursday, t/th=Tuesday and Thursday, sat/sun=Saturday
    and Sunday, m/w/f=Monday Wednesday and Friday, m/w=Monday and Wednesday, q/q=quarter over
    quarter, b/w=between, he/she=he or she, she/he=she or he, his/her=his or her, him/her=him or
    her, s/he=she or he, yes/no=yes or no, tcp/ip=T C P I P, ac/dc=A C D C, pass/fail=pass fail,
    24/7=twenty-four seven, 50/50=fifty-fifty, 9/11=nine eleven, 24/7/365=twenty-four seven three
    sixty-five, 20/20=twenty twenty
    """
)
TO_BETWEEN = words("A2A B2B B2C B2G C2B C2C D2C E2E F2F G2P M2M P2P V2V V2X")
"""Codes with a 2 that is spoken as "to"."""
SLANG = pairs(
    """
    gr8=great, l8r=later, l8=late, b4=before, m8=mate, w8=wait, h8=hate, str8=straight,
    2nite=tonight, 2night=tonight, 2day=today, 2moro=tomorrow, 2morrow=tomorrow, 4ever=forever,
    every1=everyone, some1=someone, any1=anyone, no1=no one, 2gether=together, cul8r=see you later,
    ne1=anyone
    """
)
"""Words written with digits in messages."""
SHORT_WORDS = {
    form: " ".join(name.upper())
    for name in words(
        """
        AE AL ASAP AX BI BSc COPD Cu DA Hg Pb Zn DIY ERA FA FAQ GA IPv KS LED MSc NA OB OS PI PO PRN
        PSI PhD QID RA Rx TI TID TOS WA WWW afaik api asap aws brb cia diy eod eow eta etf faq ftp
        ftw fyi hoa http https ikr idc idk irl lmao mRNA ngl nyc omg omw otp pH prn qa roi smh suv
        tbh ttyl udp url ux vip wfh wtf www
        """
    )
    for form in (name, name[0].upper() + name[1:])
}
SHORT_WORDS |= either_case(
    """
    add'l=additional, int'l=international, nat'l=national, dep't=department, gov't=government,
    aka=also known as, btw=by the way, pls=please, plz=please, thx=thanks, thru=through, lmk=let me
    know, nvm=never mind, sry=sorry, ppl=people, tmrw=tomorrow, tmr=tomorrow, rly=really, rn=right
    now, wyd=what you doing, gonna=gonna, hrs=hours, yrs=years, mins=minutes, secs=seconds,
    tsp=teaspoon, tbsp=tablespoon, abt=about, bday=birthday, bc=because, tho=though, fav=favorite,
    obv=obviously, pw=password, wk=week, txt=text, txts=texts, msg=message, msgs=messages,
    lvs=leaves, ea=each, esc=escape, ctrl=control, u=you, wkday=weekday, wkdays=weekdays,
    wknd=weekend, wknds=weekends, imo=in my opinion, imho=in my humble opinion, bbq=barbecue,
    iirc=if I recall correctly, tysm=thank you so much, yw=you're welcome
    """
) | pairs(
    """
    OK'd=okayed, OKs=okays, YoY=year over year, MoM=month over month, AKA=also known as, BTW=by the
    way, IMO=in my opinion, &c=et cetera, ur=your, ty=thank you, TBD=to be determined, FAQs=F A Qs,
    cc's=C C's, PhDs=P H Ds, JSON=json, JPEG=jay peg, jpeg=jay peg, π=pi, α=alpha, β=beta, γ=gamma,
    λ=lambda, Δ=delta, δ=delta, θ=theta, σ=sigma, Ω=omega, ω=omega, ε=epsilon, φ=phi, χ=chi, ρ=rho,
    τ=tau, η=eta, κ=kappa, ψ=psi, ξ=xi, ζ=zeta, Φ=phi, Γ=gamma, Σ=sigma, WWII=World War two,
    WWI=World War one, WW2=World War two
    """
)
LETTER_WORDS = words(
    """
    appendix apt block building class column exhibit figure gate grade group hepatitis letter model
    option part plan point schedule section series side team terminal type variant version vitamin
    """
)
"""Words after which a capital is the name of a letter."""
SHOUTED = words(
    """
    ADD ALL AM AN AND ARE AS AT BE BY CAN DO GO HE HER HIS IF IN IS IT ITS MAY ME MUST MY NO NOT NOW
    OF ON OR OUR OUT SO THE TO UP US WE WHO YES YOU
    """
)
BOOKS = pairs(
    """
    Gen=Genesis, Ex=Exodus, Exod=Exodus, Lev=Leviticus, Num=Numbers, Deut=Deuteronomy, Josh=Joshua,
    Judg=Judges, Sam=Samuel, Kgs=Kings, Chron=Chronicles, Neh=Nehemiah, Ps=Psalm, Pss=Psalms,
    Prov=Proverbs, Eccl=Ecclesiastes, Isa=Isaiah, Jer=Jeremiah, Lam=Lamentations, Ezek=Ezekiel,
    Dan=Daniel, Hos=Hosea, Mic=Micah, Hab=Habakkuk, Zech=Zechariah, Mal=Malachi, Matt=Matthew,
    Mt=Matthew, Mk=Mark, Lk=Luke, Jn=John, Rom=Romans, Cor=Corinthians, Gal=Galatians,
    Eph=Ephesians, Phil=Philippians, Col=Colossians, Thess=Thessalonians, Tim=Timothy, Heb=Hebrews,
    Jas=James, Pet=Peter, Rev=Revelation
    """
)
"""Short names of the books of the Bible, before chapter and verse."""
BOOK_NAMES = frozenset(name.lower() for pair in BOOKS.items() for name in pair) | words(
    "acts amos esther ezra haggai job joel jonah jude nahum obadiah philemon ruth titus zephaniah"
)
