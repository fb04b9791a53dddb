"""Calls of the owner's model: inputs in, a dict of columns out for each."""

import typing
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from ..contract import ContractError
from ..interface import Interface, WrongAnswer
from .exits import BadConfiguration
from .making import Maker, Refused
from .outputs import is_plain, native, said_columns
from .parts import Columns, Part
from .results import Answers, check_count, schema_of

# The column of an output that is not an object.
PREDICTION = "prediction"


class Caller:
    """Makes inputs of the rows of a part and calls the model with them.

    parameters: an object of the owner's class. limit: the bytes that a file may have which a row leads to.
    """

    def __init__(self, interface: Interface, columns: Columns, parameters: Any = None, limit: int = 16 << 20) -> None:
        self._interface, self._parameters = interface, parameters
        self._maker = Maker(interface, columns.typed, limit) if columns.typed else None
        # As in version 0.2: dicts of whatever can be a column, which nothing but the columns checks.
        self._dicts = interface.dated or typing.get_origin(interface.output) is dict
        self._as_it_is = interface.model.predict if self._dicts and interface.parameters is None else None
        self._is_plain = is_plain(interface.output)
        self._wrapped = False

    def examples(self) -> list[Any]:
        """Return the model's examples as inputs. Raises BadConfiguration."""
        if self._interface.is_text and self._interface.dated:
            return list(self._interface.model.examples)
        try:
            return self._interface.examples()
        except ContractError as error:
            raise BadConfiguration(str(error)) from None

    def schema(self, names: list[str]) -> tuple[Answers, pa.Schema]:
        """Return the answers to the examples, and the columns that answers make beside those of the names."""
        inputs = self.examples()
        answers = self.raw(inputs)
        if not self._dicts:
            self._wrapped = not all(isinstance(answer, dict) for answer in answers)
            answers = self._named(answers)
        check_count(answers, len(inputs))
        said = {} if self._dicts else said_columns(self._interface.output)
        return answers, schema_of(answers, names, said)

    def inputs(self, part: Part, rows: Any) -> tuple[list[Any], dict[int, str]]:
        """Return the inputs of some rows of a part, and why others are none: their place among the rows -> reason."""
        if self._maker is None:
            return rows, {}
        made = self._maker.inputs(rows, part.file)
        refused = {place: str(one) for place, one in enumerate(made) if isinstance(one, Refused)}
        return ([one for one in made if not isinstance(one, Refused)] if refused else made), refused

    def raw(self, inputs: list[Any]) -> Any:
        """Call the model. Raises what it raises, and BadConfiguration for what is not a list of answers."""
        if self._as_it_is is not None:
            return self._as_it_is([*inputs])
        try:
            answers = self._interface.call(inputs, self._parameters)
            return answers if self._dicts else self._dumped(answers)
        except WrongAnswer as error:
            if error.index is None:
                raise BadConfiguration(str(error)) from None
            raise

    def answers(self, inputs: list[Any]) -> tuple[Answers, dict[int, str]]:
        """Return the model's answers as columns, and of those that are not outputs the place and why."""
        if self._as_it_is is not None:
            return self._as_it_is([*inputs]), {}
        if self._dicts:
            return self.raw(inputs), {}
        try:
            answers: Sequence[Any] = self._interface.call(inputs, self._parameters)
        except WrongAnswer as error:
            raise BadConfiguration(str(error)) from None
        left = list(range(len(inputs)))
        bad: dict[int, str] = {}
        while True:
            try:
                return self._named(self._dumped([answers[place] for place in left])), bad
            except WrongAnswer as error:
                if error.index is None:
                    raise
                bad[left.pop(error.index)] = f"the model's answer does not fit: {error}"

    def sizes(self, inputs: list[Any]) -> list[int]:
        """Return what the inputs cost, as the model says it."""
        assert self._interface.size is not None
        return list(map(self._interface.size, inputs))

    @property
    def interface(self) -> Interface:
        """Return the types of the model."""
        return self._interface

    def _dumped(self, answers: Sequence[Any]) -> list[Any]:
        found: list[Any] = self._interface.outputs.dump_python(self._interface.checked(answers))
        return found if self._is_plain else list(map(native, found))

    def _named(self, answers: list[Any]) -> Answers:
        return [{PREDICTION: answer} for answer in answers] if self._wrapped else answers
