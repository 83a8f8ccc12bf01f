"""How asking twice leaves one pull request, whatever the network did in between."""

from collections.abc import Awaitable, Callable

from forklift.forges.answer import Answer

_MOST_POSTS = 2


async def open_once(
    find: Callable[[], Awaitable[int | None]],
    post: Callable[[], Awaitable[Answer]],
    already_there: Callable[[Answer], bool],
) -> Answer | int:
    """The number of the one that is open already, or the forge's last answer to `post`.

    A forge may answer 500, or not at all, and have written. So after such an answer it is looked
    up first, and only what is not there is sent again.
    """
    posts = 0
    while True:
        number = await find()
        if number is not None:
            return number
        answer = await post()
        posts += 1
        if posts == _MOST_POSTS or not (answer.unsure or already_there(answer)):
            return answer if answer.ok else await find() or answer
