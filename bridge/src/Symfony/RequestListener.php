<?php

declare(strict_types=1);

namespace RedisLease\Bridge\Symfony;

use RedisLease\Bridge\HeldByRequest;
use Symfony\Component\HttpKernel\Event\RequestEvent;
use Symfony\Component\HttpKernel\Event\TerminateEvent;

/**
 * Tells HeldByRequest of the kernel's requests: a worker that serves many ends each of them by kernel.terminate only.
 *
 * @internal
 */
final class RequestListener
{
    public function __construct(private readonly HeldByRequest $held)
    {
    }

    public function begin(RequestEvent $event): void
    {
        if ($event->isMainRequest()) {
            $this->held->begin();
        }
    }

    public function end(TerminateEvent $event): void
    {
        $this->held->end();
    }
}
