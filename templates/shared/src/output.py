Input = str


class Output(BaseModel):
    """The topic of a text; the scores of all topics sum up to 1."""

    label: str
    score: float
