"""Every kind of task that a config can name is one that a run can build."""

from encoderlab.config.schemas import SCHEMAS
from encoderlab.runs.models.task import TASKS


def test_every_task_of_the_table_of_schemas_is_built():
    assert {schema for (group, _), schema in SCHEMAS.items() if group == "task"} <= TASKS.keys()
