import torch

from normscope.scoring.layout import Layout


def test_code_and_maps_come_out_as_they_went_in_and_anything_may_come_behind():
    torch.manual_seed(0)
    code, fine, coarse, behind = torch.rand(3, 5), torch.rand(3, 2, 4, 6), torch.rand(3, 7, 2, 3), torch.rand(3, 2)
    layout = Layout(5, (fine.shape[1:], coarse.shape[1:]))
    rows = torch.cat([layout.rows(code, fine, coarse), behind], 1)
    assert layout.finest == (4, 6)
    assert torch.equal(layout.code(rows), code)
    assert all(map(torch.equal, layout.maps(rows), (fine, coarse)))
    assert torch.equal(layout.behind(rows), behind)
    assert layout.behind(layout.rows(code, fine, coarse)).shape == (3, 0)
