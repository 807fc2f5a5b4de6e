/* ouro_kernels.c: targeted source (compiled per allocator and target): the kernels of the graph
 * class `ouro`, after ouroGraph: each adjacency is one page of a power of two of bytes, from 16 on,
 * and nothing else is different from `lattice`. A page is as small as its degree allows, also when
 * arcs go (33 -> 32 bytes takes a new one); a vertex without arcs has none. Values of arcs are in
 * the page, behind the neighbours.
 *
 * The worker knows the degree to come behind the check for arcs that are there twice, so that a
 * vertex takes one page a batch; deletions close the gaps, and copy to a smaller page then.
 *
 * Departures from the paper: the vertices' records are device memory beside the heap, not in its
 * linear region; a batch is laid out by counting, not sorted. Updates are by vertex.
 *
 * Source   Winter, thesis, sections 6.2 and 6.2.2
 */
#define WH_LATTICE_POWERS 1
#define WHI_LATTICE_TABLE whi_ouro_kernels

#include "lattice_kernels.c"
