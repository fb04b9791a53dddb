TOPICS = {
    "computing": "class code computer error file function functions loop module program",
    "sport": "ball game goal match player race score team win won",
    "weather": "cloud cold forecast rain snow storm sun temperature warm wind",
}
WORDS = " ".join(TOPICS.values()).split()
