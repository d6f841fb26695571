from hf_sgpe.generation import GenerationOptions, TextGenerator
from hf_sgpe.serving.request_queue import QueuedRequest, RequestQueue


def test_answers_in_the_line_are_those_of_the_generator(engine_name, models, prompts):
    options = GenerationOptions(max_new_tokens=10, temperature=0)
    with TextGenerator.load(models["tied"], engine_name, exact=True) as generator:
        expected = [generator.generate(prompt, options) for prompt in prompts[:6]]
        queue, received = RequestQueue(10), []
        request = QueuedRequest(lambda number, piece: received.append((number, piece)))
        request.texts = [generator.pieces(generator.encode(prompt), options) for prompt in prompts[:6]]
        queue.add(request)
        queue.finish()
        queue.join()
    assert not [piece for _, piece in received if isinstance(piece, Exception)]
    said = ["".join(piece.text for index, piece in received if index == number) for number in range(6)]
    assert said == expected
