"""What the made-up people of `memory_dialogues.py` talk about.

Written by hand for this purpose. A fact is told in the first person and asked for in other words:
"told | asked" where what is told follows "I" and what is asked follows "did X". Each topic has
words that come up while it is talked about, whoever says them, and things that may be shown.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A subject: its name, what may be told of it, words that come up, things that are shown."""

    name: str
    facts: tuple[tuple[str, str], ...]
    words: tuple[str, ...]
    shown: tuple[str, ...]


_TOPICS = """
pottery
  signed up for a pottery class | register for a ceramics course
  made a blue bowl for my mother | make for their mother
  broke my favourite vase in the kiln | break while firing
  sold two plates at the craft market | sell at the fair
  clay, kiln, glaze, wheel, studio, bowl, handmade
  a bowl with a cat painted on it, a shelf full of mugs
running
  ran a charity race for clean water | take part in a run to raise money
  twisted my ankle on the trail | hurt while jogging
  bought new purple sneakers | purchase for running
  beat my best time by a minute | achieve in the race
  miles, pace, marathon, shoes, finish line, training, trail
  a medal on a ribbon, a crowd at a starting line
gardening
  planted tomatoes and basil behind the shed | grow in the backyard
  lost most of the roses to the frost | lose in the garden
  built a raised bed out of old pallets | construct for the vegetables
  joined a community garden near the river | become a member of
  soil, seeds, compost, weeds, harvest, flowers, watering
  a basket of ripe tomatoes, a row of sunflowers
adoption
  applied to an adoption agency | contact about having a child
  went to a meeting for future parents | attend to learn about adopting
  got the letter that says we are approved | hear from the agency
  painted the nursery in yellow | decorate for the baby
  child, paperwork, agency, family, interview, home visit, kids
  a yellow room with a crib, a stack of forms
camping
  went camping by a lake with the children | do with the kids in the summer
  saw a meteor shower from the tent | watch in the sky at night
  forgot the stove and we ate cold beans | leave at home on the trip
  roasted marshmallows over the fire | cook outdoors
  tent, campfire, forest, hike, stars, mountains, sleeping bag
  a tent under tall pines, a fire with people around it
painting
  painted a sunset over the bay | create a picture of
  showed my watercolours in a small gallery | exhibit
  took a lesson from a retired illustrator | learn drawing from
  gave my portrait of grandpa to my aunt | give to a relative
  canvas, brush, colours, easel, sketch, exhibition, abstract
  a canvas with an orange sky, a sketch of an old man
dogs
  adopted a puppy called Biscuit from the shelter | get from the animal rescue
  taught my dog to open the fridge | train their pet to do
  took the dog to the vet because of a limp | bring the animal to the doctor for
  found a dog park with a pond | discover for walking the pet
  leash, bark, fur, treats, walks, shelter, paws
  a brown puppy on a couch, a dog jumping into water
music
  started violin lessons with a neighbour | begin learning an instrument
  saw a jazz trio in a tiny bar | go to a concert
  wrote a song about my hometown | compose
  joined a choir that sings on Thursdays | become part of a singing group
  chords, melody, rehearsal, stage, band, lyrics, practice
  a violin on a chair, a band under red lights
work
  got promoted to team lead | achieve in the job
  quit my job at the bank | leave the company
  opened a small bakery downtown | start as a business
  gave a talk about water pumps at a conference | present to an audience
  boss, office, project, clients, deadline, salary, career
  a desk with three screens, a shop front with a striped awning
studying
  enrolled in a night course on accounting | study in the evenings
  passed the exam for my pilot licence | succeed in the test
  dropped out of law school | abandon at university
  got a scholarship for a year abroad | receive to study in another country
  lectures, exam, professor, degree, campus, notes, thesis
  a library with green lamps, a certificate in a frame
cooking
  learned to make dumplings from my grandmother | learn to prepare
  won second place in a chili contest | win with a dish
  burned the lasagna at the dinner party | ruin while hosting friends
  started a podcast about cheap recipes | launch about food
  oven, recipe, spices, dough, kitchen, flavour, dessert
  a tray of dumplings, a cake with strawberries
travel
  visited Lisbon for my birthday | travel to celebrate
  missed the train to Vienna | fail to catch
  stayed on a farm in Iceland | spend the holiday
  booked tickets to see the northern lights | plan a journey for
  flight, hotel, passport, museum, beach, suitcase, sightseeing
  a street with yellow trams, a map with red pins
health
  was diagnosed with a gluten allergy | find out from the doctor
  started physiotherapy for my shoulder | begin treatment for
  gave up coffee to sleep better | stop drinking
  had my wisdom teeth out | undergo at the dentist
  doctor, symptoms, appointment, recovery, medicine, sleep, checkup
  an arm in a sling, a plate without bread
volunteering
  helped at a soup kitchen for the homeless | do to support people in need
  collected books for a school that had a fire | gather for the pupils
  mentored a teenager who wants to code | support a young person as
  marched for cleaner air | protest in favour of
  donations, shelter, neighbours, cause, charity, community, kindness
  boxes full of books, people with banners
games
  finished a puzzle game about lighthouses | complete on the console
  won the regional chess tournament | win against other players
  started a board game night at the library | organize for people who like playing
  bought a used console from my cousin | get from a relative
  level, controller, strategy, opponent, score, players, cards
  a chessboard with few pieces, a shelf of board games
wedding
  got engaged on a ferry | accept a proposal
  chose a barn as the place for our wedding | select as the venue
  danced until morning at my sister's wedding | do at the family celebration
  ordered a cake with lemon cream | pick for dessert at the marriage
  ring, dress, guests, vows, flowers, ceremony, honeymoon
  a barn with strings of lights, two rings on a book
moving
  moved into a flat above a bookshop | relocate to
  sold the old house by the railway | get rid of the property
  found mould behind the wardrobe | discover in the apartment
  got the keys to our first house | receive as a new owner
  boxes, rent, landlord, neighbourhood, furniture, mortgage, lease
  a room full of boxes, a red front door
reading
  finished a novel about whale hunters | read lately
  joined a book club for mysteries | become a member to discuss stories
  met the author of my favourite trilogy | meet a writer
  lent my cookbook to Dana and never got it back | lend to a friend
  chapter, author, library, story, characters, pages, ending
  a pile of old paperbacks, a signed first page
climbing
  climbed a wall of twenty metres without a rest | manage at the gym
  fell and tore a ligament | injure
  hiked to a glacier with two guides | walk to in the mountains
  bought a rope and a helmet second hand | acquire as equipment
  rope, summit, grip, cliff, gear, altitude, partner
  a climber on a grey wall, a glacier in the sun
cars
  restored a truck from the sixties | repair as a hobby
  failed my driving test twice | not pass
  hit a deer on the way home | collide with
  switched to an electric car | change to for commuting
  engine, tyres, garage, mechanic, brakes, mileage, paint
  a green truck in a garage, a dented bumper
photography
  got a used camera with three lenses | obtain for taking pictures
  took photos of storms for a calendar | capture for a publication
  won a prize for a picture of a heron | be honoured for
  set up a darkroom in the bathroom | install at home to develop film
  lens, light, shutter, prints, portrait, film, exposure
  a heron in the mist, a row of old cameras
film
  wrote a short script about twins | write for the screen
  was an extra in a pirate movie | play a small part in
  showed my documentary at a festival | screen for an audience
  watched the whole space saga in a weekend | see within two days
  scene, actor, director, cinema, plot, audience, premiere
  a clapperboard on a beach, an empty cinema
money
  paid off my student loan | finish paying back
  lost my wallet at the fair | lose in the crowd
  started saving for a sailing boat | put money aside for
  got a small grant for the workshop | receive funding for
  bank, savings, budget, bills, interest, price, account
  a jar full of coins, a letter from a bank
family
  went to my niece's graduation | attend to celebrate a relative
  found letters that my grandfather wrote | discover from an ancestor
  had a big reunion at the farm | hold with the relatives
  looked after my brother's twins | babysit
  cousin, parents, sister, photos, childhood, dinner, tradition
  a bundle of old letters, a long table in a garden
"""


def _parsed() -> tuple[Topic, ...]:
    topics, lines = [], [line for line in _TOPICS.splitlines() if line]
    starts = [at for at, line in enumerate(lines) if not line.startswith(" ")]
    for begin, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        *facts, words, shown = (line.strip() for line in lines[begin + 1 : end])
        topics.append(
            Topic(
                name=lines[begin],
                facts=tuple(_fact(line) for line in facts),
                words=tuple(words.split(", ")),
                shown=tuple(shown.split(", ")),
            )
        )
    return tuple(topics)


def _fact(line: str) -> tuple[str, str]:
    told, asked = line.split(" | ")
    return told, asked


TOPICS = _parsed()
