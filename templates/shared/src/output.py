Input = str


class Output(BaseModel):
    label: str
    score: float
