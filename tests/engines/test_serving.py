"""Each engine answers from the line's thread, which is not the one that has loaded it."""

from support.serving import wait_until

from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.serving.request_queue import Line, Ticket


def test_answers_in_the_line_are_those_of_the_generator(engine_name, models, prompts):
    options = GenerationOptions(max_new_tokens=10, temperature=0)
    with TextGenerator.load(models["tied"], engine_name, exact=True) as generator:
        expected = [generator.generate(prompt, options) for prompt in prompts[:6]]
        line, said = Line(10), [""] * 6

        def receive(number, piece):
            said[number] += piece.text

        ticket = Ticket(receive)
        ticket.texts = [generator.pieces(generator.encode(prompt), options) for prompt in prompts[:6]]
        line.add(ticket)
        wait_until(lambda: not len(line))
        line.close()
        line.join()
    assert said == expected
