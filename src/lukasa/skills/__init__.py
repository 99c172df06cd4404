"""Skills: how something is done, as Markdown that people write and agents follow."""

from lukasa.skills.markdown import Fault, SkillText, parse, render
from lukasa.skills.room import SKILL, Skill, Skills, Synced

__all__ = ["SKILL", "Fault", "Skill", "SkillText", "Skills", "Synced", "parse", "render"]
