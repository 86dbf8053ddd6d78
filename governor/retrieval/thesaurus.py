"""What general English words for tools and the things they handle have in common.

Each line is a group of words that one person says where another says the other. A word may stand
in several groups. The groups were written by hand from general English: what programs do, and
the files, places, times and sums they do it to. What they are worth, and what was known of the
requests that search is measured on, stands in `benchmarks/RESULTS.md`. A list half again as long
brought nothing more, so this one stays short.
"""

from collections import defaultdict
from collections.abc import Mapping

from governor.retrieval.stemmer import stem

_GROUPS = """
get fetch retrieve obtain read load lookup look query check view show see display access acquire
  collect gather pull grab receive
search find discover locate seek explore browse lookup look hunt query filter identify
list enumerate index catalog catalogue browse all
create make generate build produce construct new compose draft design prepare initialize init
write save store record put persist export dump
add insert append attach include put
update edit modify change set adjust alter replace revise amend rename patch
delete remove erase clear drop discard destroy purge trash uninstall cancel
convert transform translate change turn export render format
merge combine join concatenate concat unite mix
split divide separate partition cut extract crop trim
send deliver post publish share submit forward transmit broadcast notify mail
calculate compute evaluate count sum math arithmetic calculator solve formula
analyze analyse analysis examine inspect assess evaluate investigate study review diagnose
compare contrast diff difference match
download fetch pull save get
upload push import submit
run execute launch start invoke perform trigger spawn command
stop end kill terminate cancel abort halt close
open load launch start
move rename relocate transfer
copy duplicate clone replicate
draw plot paint sketch render visualize visualise illustrate
summarize summarise summary abstract overview brief digest report synopsis
recommend suggest propose advise recommendation suggestion
plan schedule arrange organize organise itinerary agenda
verify validate check confirm test lint ensure
sort rank order arrange top
pay charge purchase buy order checkout transfer
book reserve reservation booking schedule appointment
login signin authenticate authorize auth
explain describe detail define clarify
monitor watch track observe follow
install setup deploy configure
pick choose select sample draw
random randomly chance shuffle dice
file document doc
directory folder dir path tree
image picture photo photograph pic img graphic
chart graph plot diagram visualization visualisation figure
table spreadsheet sheet excel worksheet workbook grid csv xlsx
presentation slide deck powerpoint ppt pptx
document word docx doc
text content body paragraph string
page webpage website site web url link
internet online web
message mail email sms chat
user account person people member contact profile
address location place position coordinate spot site geolocation
coordinate latitude longitude geocode geocoding gps lat lon
map route direction navigation path road
near nearby close around vicinity proximity within radius surrounding
travel trip journey tour vacation
distance length far
restaurant food dining cafe meal eat
recipe cook cooking dish meal food
hotel accommodation lodging stay
flight plane airline
train railway rail
car vehicle auto automobile driving
time date day clock calendar datetime
today now current latest present
latest recent new newest current fresh
news headline article story press
trend trending popular hot hottest top viral
price cost quote value rate worth fee
stock share equity ticker
company firm business corporation organization organisation
money currency cash payment fund
crypto cryptocurrency bitcoin coin token
market exchange trading trade
financial finance monetary fiscal
income profit earning revenue
buy purchase shopping shop deal bargain product goods item
weather forecast temperature climate
information info data detail details metadata facts
dataset data
database db sql table
number count quantity amount total
repository repo git github
code source program script function
library package dependency module
version release update
issue bug ticket task todo
commit revision changeset change
paper article publication academic literature scholarly research
book novel reading
music song audio track sound
video movie film clip
game play player
word term vocabulary
meaning definition dictionary
language translation
name title label
id identifier
list collection set
error exception failure bug problem
log history record
config configuration setting option preference parameter
command shell terminal bash cli
memory note remember
event meeting appointment
health medical clinical disease drug medicine patient
law legal regulation
country nation
city town
statistics stats statistic metric analytics
similar related like
question ask query
answer response reply
"""


def _concepts() -> Mapping[str, tuple[str, ...]]:
    groups = _GROUPS.strip().replace("\n  ", " ").splitlines()
    found: dict[str, list[str]] = defaultdict(list)
    for number, group in enumerate(groups):
        for name in dict.fromkeys(stem(word) for word in group.split()):
            found[name].append(f"~{number}")
    return {name: tuple(concepts) for name, concepts in found.items()}


# From a word's stem to the names of its groups.
CONCEPTS = _concepts()
