"""Forms of English words that no suffix rule brings together, and short forms of the same word.

From general English: verbs and plurals as a grammar lists them, and how people call their family.
Each line begins with the form that the others are found by.
"""

from collections.abc import Mapping

_FORMS = """
be been being; become became; begin began begun; bend bent; bet; bite bit bitten; bleed bled
blow blew blown; break broke broken; bring brought; build built; burn burnt; buy bought
catch caught; choose chose chosen; come came; cost; creep crept; cut; deal dealt; dig dug
draw drew drawn; dream dreamt; drink drank drunk; drive drove driven; eat ate eaten
fall fell fallen; feed fed; feel felt; fight fought; find found; flee fled; fly flew flown
forbid forbade forbidden; forget forgot forgotten; forgive forgave forgiven; freeze froze frozen
get got gotten; give gave given; go went gone; grow grew grown; hang hung; hear heard
hide hid hidden; hold held; hurt; keep kept; kneel knelt; know knew known; lay laid
lead led; learn learnt
leave left; lend lent; lose lost; make made; mean meant; meet met; pay paid; prove proven
read; ride rode ridden; ring rang rung; rise rose risen; run ran; say said; see saw seen
seek sought; sell sold; send sent; sew sewn; shake shook shaken; shine shone; shoot shot
show shown; shrink shrank shrunk; sing sang sung; sink sank sunk; sit sat; sleep slept; slide slid
speak spoke spoken; speed sped; spend spent; spin spun; spread; stand stood; steal stole stolen
stick stuck; sting stung; strike struck; strive strove; swear swore sworn; sweep swept
swim swam swum; swing swung; take took taken; teach taught; tear tore torn; tell told
think thought; throw threw thrown; understand understood; wake woke woken; wear wore worn
weave wove woven; weep wept; win won; write wrote written
child kid children; man men; woman women; foot feet; tooth teeth; mouse mice; goose geese
life lives; wife wives; knife knives; leaf leaves; shelf shelves; half halves; person people
mother mom mum mommy mummy mama; father dad daddy papa; grandmother grandma granny nana
grandfather grandpa granddad; sibling; auntie aunt; photograph photo pic picture snapshot
television tv telly; bicycle bike; motorcycle motorbike; refrigerator fridge; telephone phone
advertisement ad advert; apartment flat; holiday vacation; film movie; exam examination
lab laboratory; gym gymnasium; veterinarian vet; mathematics math maths; info information
favorite favourite; color colour; neighbor neighbour; theater theatre; center centre
jewelry jewellery; pajamas pyjamas; gray grey; traveling travelling; zero 0; one 1; two 2
three 3; four 4; five 5; six 6; seven 7; eight 8; nine 9; ten 10; eleven 11; twelve 12; twenty 20
"""


def _regular() -> Mapping[str, str]:
    lines = (line.split() for group in _FORMS.splitlines() for line in group.split(";"))
    return {form: words[0] for words in lines if words for form in words[1:]}


# From a form to the one that it is found by.
REGULAR = _regular()
