/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's calls and its devices' work, through CUPTI. libcuda brings the collector in by CUDA_INJECTION64_PATH.
 */
#ifndef PLN_CUPTI_H
#define PLN_CUPTI_H

/* For processes without that variable: bring the collector in if libcuda is loaded, or as soon as it will be. */
void pln_cupti_look(void);
void pln_cupti_await(void);

#endif
