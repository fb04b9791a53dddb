TOPICS = {
    "weather": "weather rain sun snow wind storm cloud sky forecast temperature degrees cold warm summer winter umbrella",
    "sport": "sport team match goal ball player race win champion coach league score football tennis run swim stadium",
    "food": "food eat cook kitchen recipe bread cheese meat fruit sugar salt dinner lunch drink wine coffee taste hungry",
    "science": "science research theory experiment physics energy atom planet star universe cell biology chemistry proof",
    "computing": "computer program code function class object variable string integer module import python error data file",
    "money": "money price market bank buy sell pay cost tax trade profit company stock business invest dollar rich poor",
    "people": "people man woman child friend family love marriage life heart mother father husband wife happy live die",
    "language": "language word sentence grammar write read book poem story author speak letter name syntax expression",
}
