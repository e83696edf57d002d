"""Endings of addresses and file names, and other marks of spelled text."""

from antiphon.text.contexts import pairs, words

DOMAIN_ENDINGS = words(
    """
    ai app at au be biz blog br ca ch cloud cn co com cz de dev dk edu es eu fi fm fr gg gov ie in
    info int io it jp kr local ly me mil mx net nl no nz online org pl pt ru se shop site tech tv uk
    us xyz
    """
)
SURE_DOMAIN_ENDINGS = words(
    """
    ai app au biz ca ch cn co com de dev edu eu fr gg gov info io jp ly mil net nl nz org tv uk xyz
    """
)
"""Endings that make an address of two words with a dot between."""
FILE_ENDINGS = words(
    """
    apk app avi bak bat bin c cfg conf cpp cs css csv dat db deb dll dmg doc docx env epub exe flac
    gif go gz h hpp htm html ini ipynb iso java jpeg jpg js json jsx lock log md mkv mov mp3 mp4 ogg
    pdf php png ppt pptx psd py rar rb rpm rs rst scss sh sql svg tar tex tmp toml ts tsx txt wav
    webm webp xls xlsx xml yaml yml zip
    """
)
HIDDEN_FILES = words(
    ".bashrc .zshrc .env .gitignore .dockerignore .npmrc .vimrc .htaccess .profile .git .ssh .aws"
)
SPOKEN_CODES = pairs(
    """
    doi=D O I, api=A P I, arxiv=archive, v=V, com=com, org=org, net=net, gov=gov, mil=mil,
    info=info, biz=biz, txt=text, docx=doc X, jpeg=jay peg, json=json, yaml=yaml, toml=toml, www=W W
    W, usr=user, etc=et cetera, readme=read me, wav=wave, gif=gif, config=config, img=image,
    src=source, exe=E X E, py=P Y, bin=bin, lib=lib, env=E N V, tmp=temp, doc=doc, docs=docs,
    zip=zip, log=log, bat=bat, xlsx=X L S X, pptx=P P T X, html=H T M L, java=java, tar=tar,
    lock=lock, app=app, dev=dev, tech=tech, shop=shop, site=site, blog=blog, online=online,
    cloud=cloud, local=local, conf=conf, repo=repo, init=init, utils=utils, admin=admin, int=int,
    mov=M O V, flac=flac, ini=ini, iso=I S O, css=C S S, go=go, edu=E D U, sql=S Q L, dat=dat,
    env.=E N V, tex=tech, bak=bak
    """
)
"""Spoken forms of parts of addresses and file names; others of up to three letters without a vowel,
and all endings of up to three letters, are spelled."""
CODE_SIGNS = pairs(
    r"""
    .=dot, @=at, /=slash, \=backslash, :=colon, -=dash, _=underscore, ~=tilde, ?=question mark,
    &=and, ==equals, #=hash, +=plus, %=percent, $=dollar, *=star, ;=semicolon, !=exclamation point,
    (=open parenthesis, )=close parenthesis, [=open bracket, ]=close bracket, <=less than,
    >=greater than, |=bar, ^=caret, '=apostrophe, {=open brace, }=close brace
    """
) | {",": "comma"}
ELEMENTS = words(
    """
    Ag Al Ar As Au B Ba Be Br C Ca Cd Cl Co Cr Cs Cu F Fe H He Hg I K Kr Li Mg Mn Mo N Na Ne Ni O P
    Pb Pt S Se Si Sn Sr Ti U V W Xe Zn
    """
)
NAMED_SIGNS = pairs(
    """
    C#=C sharp, F#=F sharp, G#=G sharp, D#=D sharp, A#=A sharp, C++=C plus plus, c++=C plus plus,
    G++=G plus plus, .NET=dot net
    """
)
HTML_TAGS = words(
    """
    a abbr b big body br code del div em font h1 h2 h3 h4 hr html i img ins li mark ol p pre q s
    small span strong sub sup table tbody td th thead tr tt u ul
    """
)
