TOPICS = {
    "weather": "weather rain sun snow wind storm cloud sky forecast temperature degrees cold warm summer winter",
    "sport": "sport team match goal ball player race win champion coach league score football tennis run swim",
    "food": "food eat cook kitchen recipe bread cheese meat fruit sugar salt dinner lunch drink wine coffee taste",
    "science": "science research theory experiment physics energy atom planet star universe cell biology proof",
    "computing": "computer program code function class object variable string integer module import python error file",
    "money": "money price market bank buy sell pay cost tax trade profit company stock business invest rich poor",
    "people": "people man woman child friend family love marriage life heart mother father husband wife happy die",
    "language": "language word sentence grammar write read book poem story author speak letter name expression",
}
