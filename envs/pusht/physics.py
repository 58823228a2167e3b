"""The Push-T scene in pymunk: a disc that follows its target pushes a T between four walls."""

import math
import struct
from itertools import pairwise

from pymunk import Body, Circle, Poly, Segment, Space, Vec2d, batch

from rnce.envs.pusht.geometry import (
    AGENT_RADIUS,
    BAR,
    BLOCK_REACH,
    CENTRE_OF_GRAVITY,
    STEM,
    WALL_HIGH,
    WALL_LOW,
    WALL_RADIUS,
    Point,
    Pose,
    centre_of_gravity,
)

CONTROL_HZ = 10
DT = 0.01
SUBSTEPS = 10  # of DT in one control period
STIFFNESS, DAMPING = 100.0, 20.0  # of the law that drives the agent: critically damped, so it does not overshoot
MASS, MOMENT = 1.0, 3000.0

_CONTACT_COUNT = batch.ArbiterFields.CONTACT_COUNT
_UINTPTR = "Q" if struct.calcsize("P") == 8 else "I"  # what pymunk's integer buffers hold

# Beyond these distances nothing can touch the block, with two pixels to spare.
_TOUCH = BLOCK_REACH + AGENT_RADIUS + 2.0
_CLEAR_LOW = WALL_LOW + WALL_RADIUS + BLOCK_REACH + 2.0
_CLEAR_HIGH = WALL_HIGH - WALL_RADIUS - BLOCK_REACH - 2.0


class Scene:
    """Agent, block and walls. Only what pymunk 6.6 and 7 have in common is used.

    The order in which shapes are added and placed decides the order in which contacts are solved, and with it the
    last bits of every trajectory; it is the order of gym-pusht.
    """

    def __init__(self) -> None:
        self._space = Space()
        self._space.damping = 0.0  # what nothing pushes stands still
        corners = [(WALL_LOW, WALL_HIGH), (WALL_LOW, WALL_LOW), (WALL_HIGH, WALL_LOW), (WALL_HIGH, WALL_HIGH)]
        for start, end in [*pairwise(corners), (corners[0], corners[3])]:
            self._space.add(Segment(self._space.static_body, start, end, WALL_RADIUS))

        self._agent = Body(body_type=Body.KINEMATIC)
        self._agent.position = (256.0, 400.0)
        self._space.add(self._agent, Circle(self._agent, AGENT_RADIUS))

        self._block = Body(MASS, MOMENT)
        self._block.center_of_gravity = CENTRE_OF_GRAVITY
        self._block.position = (256.0, 300.0)
        self._space.add(self._block, *(Poly(self._block, box.corners) for box in (BAR, STEM)))
        self._contacts = batch.Buffer()

    @property
    def agent(self) -> Vec2d:
        """Position of the agent."""
        return self._agent.position

    @property
    def agent_velocity(self) -> Vec2d:
        """Velocity of the agent in pixels per second."""
        return self._agent.velocity

    @property
    def block(self) -> Pose:
        """Pose of the block; the angle is not wrapped."""
        return Pose(*self._block.position, self._block.angle)

    def place(self, agent: Point, block: Pose) -> None:
        """Put agent and block there, at rest."""
        self._agent.position = agent
        # Setting the angle turns the block about its centre of gravity, which moves its origin: so position last.
        self._block.angle = block.angle
        self._block.position = block.x, block.y

    def place_like_gym_pusht(self, agent: Point, block: Pose) -> int:
        """Position before angle, then one physics step: the block lands at request + cog − R(angle)·cog.

        Returns the number of contact points of that step.
        """
        self._agent.position = agent
        self._block.position = block.x, block.y
        self._block.angle = block.angle
        self._space.step(DT)
        self._note_contacts()
        return self._pop_contacts()

    def push(self, target: Point) -> int:
        """Drive the agent towards the target for one control period; returns the contact points over all substeps."""
        agent, space = self._agent, self._space
        target_x, target_y = target
        x, y = agent.position
        vx, vy = agent.velocity
        # A kinematic body moves by its velocity alone, so the law runs on plain numbers without asking pymunk back.
        velocities = []
        centre_x, centre_y = centre_of_gravity(self.block)
        near = not (_CLEAR_LOW < centre_x < _CLEAR_HIGH and _CLEAR_LOW < centre_y < _CLEAR_HIGH)
        for _ in range(SUBSTEPS):
            vx += (STIFFNESS * (target_x - x) + DAMPING * (0.0 - vx)) * DT
            vy += (STIFFNESS * (target_y - y) + DAMPING * (0.0 - vy)) * DT
            x += vx * DT
            y += vy * DT
            velocities.append((vx, vy))
            near = near or math.hypot(x - centre_x, y - centre_y) < _TOUCH
        for velocity in velocities:
            agent.velocity = velocity
            space.step(DT)
            if near:
                self._note_contacts()
        return self._pop_contacts() if near else 0

    def _note_contacts(self) -> None:
        """Append the contact points of the last physics step, one number for each touching pair of shapes.

        This is one call into C. A collision callback would come back to Python for each pair and substep.
        """
        batch.get_space_arbiters(self._space, _CONTACT_COUNT, self._contacts)

    def _pop_contacts(self) -> int:
        count = sum(memoryview(self._contacts.int_buf()).cast(_UINTPTR))
        self._contacts.clear()
        return count
